// musicgen in MuseScore 3: select whole bars, then Plugins > musicgen.
//
// The score goes to `musicgen app` on this machine as MusicXML. The new bars come back as a small score, which is opened,
// copied, closed and pasted at their place: so rhythms, tuplets, ties and voices are MuseScore's, and undo is one step.
import QtQuick 2.0
import FileIO 3.0
import MuseScore 3.0

MuseScore {
    id: plugin
    version: "1"
    description: "Continue, fill, accompany, harmonise and end music with musicgen, on this machine"
    menuPath: "Plugins.musicgen"
    pluginType: "dialog"
    requiresScore: true
    width: 320
    height: 270

    property string program: "musicgen" // its path, as `musicgen bridge install musescore` knows it
    property string address: "http://127.0.0.1:7860"
    property string token: ""
    readonly property var actions: [
        ["fill", "Fill the selected bars"],
        ["below", "Write a part on the staff below"],
        ["continue", "Continue after the selection"],
        ["end", "End after the selection"],
        ["harmonise", "Harmonise: chord symbols above"]
    ]
    property bool busy: false
    property int tries: 0
    property var then: null

    FileIO {
        id: file
    }
    QProcess {
        id: process
    }

    // What is selected.

    function measures() {
        var found = [];
        for (var one = curScore.firstMeasure; one; one = one.nextMeasure) found.push(one.firstSegment.tick);
        return found;
    }

    // The first and the last bar from 1, the ticks, and the staves from 0.
    function selected() {
        var cursor = curScore.newCursor();
        cursor.rewind(1);
        if (!cursor.segment) throw "Select some bars first.";
        var begin = cursor.segment.tick, top = cursor.staffIdx;
        cursor.rewind(2);
        var lines = measures();
        var end = cursor.segment ? cursor.segment.tick : Infinity;
        var first = lines.indexOf(begin), last = end === Infinity ? lines.length : lines.indexOf(end);
        if (end !== Infinity && last < 0 && end >= lastTick()) last = lines.length;
        if (first < 0 || last < 0) throw "Select whole bars: the selection begins or ends within one.";
        return { first: first + 1, last: last, tick: begin, top: top, bottom: cursor.staffIdx, lines: lines };
    }

    function lastTick() {
        return curScore.lastSegment.tick;
    }

    function partOf(staff) {
        for (var n = 0; n < curScore.parts.length; n++) {
            if (4 * staff < curScore.parts[n].endTrack) return n;
        }
        return -1;
    }

    // The score as MusicXML without repeats, so that bars are numbered as they are written.
    function exported() {
        var path = file.tempPath() + "/musicgen-score";
        if (!writeScore(curScore, path, "musicxml")) throw "The score cannot be written to the folder for temporary files.";
        file.source = path + ".musicxml";
        var text = file.read();
        file.remove();
        return text
            .replace(/<repeat [^>]*\/>/g, "")
            .replace(/<ending [^>]*\/>|<ending [^>]*>[^<]*<\/ending>/g, "")
            .replace(/<sound [^>]*(dacapo|dalsegno|tocoda|fine|segno|coda)=[^>]*\/>/g, "");
    }

    function partTexts(text) {
        return text.match(/<part id=[\s\S]*?<\/part>/g) || [];
    }

    // A part as the server names it.
    function named(part, texts) {
        return curScore.parts[part].hasDrumStaff && !/<unpitched>/.test(texts[part]) ? "drums" : "" + part;
    }

    // The steps and semitones by which a part is written above its sound.
    function up(text) {
        var steps = text.match(/<diatonic>(-?\d+)/), semitones = text.match(/<chromatic>(-?\d+)/);
        return { steps: steps ? -steps[1] % 7 : 0, semitones: semitones ? -semitones[1] % 12 : 0 };
    }

    function isEmpty(texts, first, last) {
        for (var part = 0; part < texts.length; part++) {
            var bars = (texts[part].match(/<measure [\s\S]*?<\/measure>/g) || []).slice(first - 1, last);
            if (/<(pitch|unpitched)>/.test(bars.join(""))) return false;
        }
        return true;
    }

    // Requests.

    function ask(action) {
        if (busy) return;
        try {
            var at = selected(), text = exported(), texts = partTexts(text);
            var wanted = { "result": "new", "seed": Math.floor(Math.random() * 1e9), "bars": at.first + "-" + at.last };
            var place = { first: at.first, last: at.last, part: partOf(at.top), add: 0 };
            if (action === "fill") {
                var parts = [], all = curScore.parts, end = all[partOf(at.bottom)].endTrack;
                if (all[place.part].startTrack !== 4 * at.top || end !== 4 * at.bottom + 4)
                    throw "Select all staves of an instrument: they are written together.";
                for (var part = place.part; part <= partOf(at.bottom); part++) parts.push(named(part, texts));
                wanted["do"] = "rewrite";
                if (parts.length < texts.length) wanted["parts"] = parts.join(",");
            } else if (action === "below") {
                place.part = partOf(at.bottom) + 1;
                if (place.part >= texts.length) throw "There is no staff below; add one with an instrument, and ask again.";
                if (!isEmpty([texts[place.part]], at.first, at.last))
                    throw "The staff below has notes in these bars; select them, and choose Fill.";
                wanted["do"] = "accompany";
                wanted["parts"] = named(place.part, texts);
            } else if (action === "harmonise") {
                wanted["do"] = "accompany";
                wanted["parts"] = "chords";
            } else {
                place.first = at.last + 1;
                place.last = at.last + (action === "end" ? Math.min(4, at.last - at.first + 1) : at.last - at.first + 1);
                place.part = 0;
                place.add = Math.max(0, place.last - at.lines.length);
                if (!isEmpty(texts, place.first, place.last))
                    throw "The bars after the selection have notes; select them, and choose Fill.";
                wanted["do"] = action;
                wanted["bars"] = place.first + "-" + place.last;
            }
            send(wanted, text, function (take) {
                if (exported() !== text) throw "The score has changed meanwhile; nothing was written: ask again.";
                return action === "harmonise" ? writeChords(take, at, up(texts[place.part])) : paste(take, place);
            });
        } catch (error) {
            done("" + error);
        }
    }

    function send(wanted, text, written) {
        busy = true;
        said.text = "Asking musicgen …";
        find();
        var query = Object.keys(wanted).map(function (name) {
            return name + "=" + encodeURIComponent(wanted[name]);
        });
        var request = new XMLHttpRequest();
        request.onreadystatechange = function () {
            if (request.readyState === 3) progress(request.responseText);
            if (request.readyState !== 4) return;
            if (request.status === 0) {
                start(function () {
                    send(wanted, text, written);
                });
                return;
            }
            try {
                var lines = request.responseText.trim().split("\n"), last = JSON.parse(lines[lines.length - 1]);
                if (last.detail) throw last.detail;
                if (!last.takes) throw "The server has stopped; nothing was written.";
                if (last.takes[0].remark) throw last.takes[0].remark;
                var steps = written(last.takes[0]);
                done("Written; " + (steps === 1 ? "one undo removes it." : "undo twice removes it."));
            } catch (error) {
                done("" + error);
            }
        };
        request.open("POST", address + "/write?" + query.join("&"));
        request.setRequestHeader("Content-Type", "application/vnd.recordare.musicxml+xml");
        request.setRequestHeader("Accept", "application/x-ndjson");
        if (token) request.setRequestHeader("Authorization", "Bearer " + token);
        request.send(text);
    }

    function progress(text) {
        var lines = text.match(/\{"bars":\d+,"of":\d+\}/g);
        if (!lines) return;
        var now = JSON.parse(lines[lines.length - 1]);
        said.text = "Writing bar " + Math.min(now.of, now.bars + 1) + " of " + now.of + " …";
    }

    function done(text) {
        busy = false;
        tries = 0;
        said.text = text;
    }

    // The server: where its file says, or at the usual port; if there is none, it is started once.

    function find() {
        file.source = file.homePath() + "/.musicgen/server.json";
        if (!file.exists()) return;
        try {
            var server = JSON.parse(file.read());
            address = server.address.replace(/\/$/, "");
            token = server.token;
        } catch (error) {
            // it is being written
        }
    }

    function start(next) {
        if (tries === 0) {
            said.text = "Starting musicgen …";
            process.start(
                Qt.platform.os === "windows"
                    ? 'cmd /c start "" /b "' + program + '" app --no-browser'
                    : 'sh -c "\'' + program + "' app --no-browser >/dev/null 2>&1 &\""
            );
        }
        tries += 1;
        if (tries > 60) {
            done("musicgen does not answer; run `musicgen app --no-browser` in a terminal, and ask again.");
            return;
        }
        then = next;
        later.start();
    }

    Timer {
        id: later
        interval: 250
        onTriggered: plugin.then()
    }

    // Writing.

    // The place of the note or rest that is selected first.
    function position() {
        var elements = curScore.selection.elements;
        for (var n = 0; n < elements.length; n++) {
            var one = elements[n];
            if (one.type !== Element.NOTE && one.type !== Element.REST) continue;
            var above = one.type === Element.NOTE ? one.parent.parent : one.parent;
            return { tick: above.tick, staff: Math.floor(one.track / 4) };
        }
        return null;
    }

    // Select a bar of a staff, as a user would: there is no function for it.
    function goTo(tick, staff) {
        cmd("first-element");
        for (var n = 0; n < 20 + curScore.nmeasures + curScore.nstaves; n++) {
            var now = position();
            if (!now) cmd("next-element");
            else if (now.tick < tick) cmd("next-measure");
            else if (now.tick > tick) cmd("prev-measure");
            else if (now.staff < staff) cmd("next-track");
            else if (now.staff > staff) cmd("prev-track");
            else return cmd("select-next-measure");
        }
        throw "The place of the new bars was not found; nothing was written.";
    }

    // Whether a bar of a staff begins with a tuplet, where MuseScore does not paste: its first note is shorter than written.
    function beginsWithTuplet(tick, staff) {
        var cursor = curScore.newCursor();
        cursor.rewind(0);
        cursor.staffIdx = staff;
        while (cursor.segment && cursor.tick < tick) cursor.nextMeasure();
        var length = cursor.element.duration, begin = cursor.tick;
        cursor.next();
        var end = cursor.segment ? cursor.tick : lastTick();
        return Math.abs(end - begin - (4 * division * length.numerator) / length.denominator) > 1;
    }

    // Add bars at the end, and select the first of them by a note in it, which is then replaced.
    function append(count) {
        var tick = lastTick();
        curScore.appendMeasures(count);
        var cursor = curScore.newCursor();
        cursor.rewind(0);
        while (cursor.segment && cursor.tick < tick) cursor.next(); // moves the place of addNote, unlike nextMeasure
        cursor.addNote(curScore.parts[0].hasDrumStaff ? 38 : 60);
    }

    // A text of UTF-8 in base64; Qt.atob returns its characters or its bytes, which differs between versions of Qt.
    function decoded(sent) {
        var text = Qt.atob(sent);
        try {
            return decodeURIComponent(escape(text));
        } catch (error) {
            return text;
        }
    }

    function paste(take, place) {
        var text = decoded(take.file);
        if (!/<score-partwise/.test(text)) throw "The answer is no score; nothing was written.";
        file.source = file.tempPath() + "/musicgen-bars.musicxml";
        file.write(text);
        var score = curScore, title = score.scoreName;
        var bars = readScore(file.source, true), isOpen = bars && show("musicgen-bars");
        if (isOpen) {
            cmd("select-all");
            cmd("copy");
        }
        if (bars) closeScore(bars);
        file.remove();
        if (!show(title) || !isOpen) throw "The new bars cannot be opened; nothing was written.";
        var lines = measures(), staff = score.parts[place.part].startTrack / 4, steps = 1;
        if (place.first > lines.length) {
            score.startCmd(); // ended by pasting, so that undo is one step
            append(place.add);
        } else {
            var tick = lines[place.first - 1];
            goTo(tick, staff);
            if (beginsWithTuplet(tick, staff)) {
                cmd("delete"); // ends its undo step even after startCmd, and plugins of 3.2 have no tuplets to remove
                steps = 2;
            }
            score.startCmd();
            if (place.add) score.appendMeasures(place.add);
        }
        cmd("paste");
        return steps;
    }

    // Switch to a score, and return whether that is possible.
    function show(title) {
        for (var n = 0; n < 50 && curScore.scoreName !== title; n++) cmd("next-score");
        return curScore.scoreName === title;
    }

    // A chord as an instrument reads it that is written some steps and semitones above its sound.
    function written(symbol, up) {
        var letters = "CDEFGAB", pitches = [0, 2, 4, 5, 7, 9, 11], marks = ["b", "", "#"];
        return symbol.replace(/(^|\/)([A-G])([#b]?)/g, function (all, before, letter, sign) {
            var step = letters.indexOf(letter), to = (step + up.steps + 14) % 7;
            var pitch = pitches[step] + marks.indexOf(sign) - 1 + up.semitones;
            for (var next = 0; next < 3; next++) {
                // C for B sharp, as there are no double sharps
                for (var n = 0; n < 2; n++) {
                    var one = (to + (n ? 7 - next : next)) % 7;
                    var above = (((pitch - pitches[one] + 6) % 12) + 12) % 12 - 6;
                    if (Math.abs(above) < 2) return before + letters[one] + marks[above + 1];
                }
            }
        });
    }

    function writeChords(take, at, up) {
        var cursor = curScore.newCursor(), lines = at.lines;
        curScore.startCmd();
        cursor.rewind(0);
        cursor.staffIdx = at.top;
        for (var n = 0; n < take.chords.length; n++) {
            var tick = Math.round((take.chords[n][0] * division) / take.ticksPerBeat);
            while (cursor.segment && cursor.tick < tick) cursor.next();
            if (!cursor.segment) break;
            var symbol = newElement(Element.HARMONY);
            symbol.text = written(take.chords[n][1].replace(/♯/g, "#").replace(/♭/g, "b"), up);
            cursor.add(symbol);
        }
        curScore.endCmd();
        return 1;
    }

    onRun: find()

    focus: true
    Keys.onPressed: {
        var number = event.key - Qt.Key_1;
        if (number >= 0 && number < actions.length) ask(actions[number][0]);
        else if (event.key === Qt.Key_Escape) Qt.quit();
    }

    Column {
        anchors.fill: parent
        anchors.margins: 12
        spacing: 6
        Repeater {
            model: plugin.actions
            Rectangle {
                width: parent.width
                height: 30
                radius: 4
                color: plugin.busy ? "#dddddd" : area.pressed ? "#9fc3e8" : "#e8eef5"
                border.color: "#8a97a6"
                Text {
                    anchors.centerIn: parent
                    text: index + 1 + "  " + modelData[1]
                }
                MouseArea {
                    id: area
                    anchors.fill: parent
                    onClicked: plugin.ask(modelData[0])
                }
            }
        }
        Text {
            id: said
            width: parent.width
            wrapMode: Text.Wrap
            text: "Select whole bars, then choose. Each request writes other music."
        }
    }
}
