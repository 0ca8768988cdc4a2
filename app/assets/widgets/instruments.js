// The names of the General MIDI programs, from 0.
const NAMES = `Piano|Bright piano|Electric grand|Honky-tonk|Electric piano 1|Electric piano 2|Harpsichord|Clavinet|Celesta|Glockenspiel|Music box|Vibraphone|Marimba|Xylophone|Tubular bells|Dulcimer|
Drawbar organ|Percussive organ|Rock organ|Church organ|Reed organ|Accordion|Harmonica|Tango accordion|Nylon guitar|Steel guitar|Jazz guitar|Clean guitar|Muted guitar|Overdriven guitar|Distortion guitar|Guitar harmonics|
Acoustic bass|Finger bass|Pick bass|Fretless bass|Slap bass 1|Slap bass 2|Synth bass 1|Synth bass 2|Violin|Viola|Cello|Contrabass|Tremolo strings|Pizzicato strings|Harp|Timpani|
Strings 1|Strings 2|Synth strings 1|Synth strings 2|Choir aahs|Voice oohs|Synth voice|Orchestra hit|Trumpet|Trombone|Tuba|Muted trumpet|French horn|Brass section|Synth brass 1|Synth brass 2|
Soprano sax|Alto sax|Tenor sax|Baritone sax|Oboe|English horn|Bassoon|Clarinet|Piccolo|Flute|Recorder|Pan flute|Blown bottle|Shakuhachi|Whistle|Ocarina|
Square lead|Saw lead|Calliope lead|Chiff lead|Charang lead|Voice lead|Fifths lead|Bass and lead|New age pad|Warm pad|Polysynth pad|Choir pad|Bowed pad|Metallic pad|Halo pad|Sweep pad|
Rain|Soundtrack|Crystal|Atmosphere|Brightness|Goblins|Echoes|Sci-fi|Sitar|Banjo|Shamisen|Koto|Kalimba|Bagpipe|Fiddle|Shanai|
Tinkle bell|Agogo|Steel drums|Woodblock|Taiko|Melodic tom|Synth drum|Reverse cymbal|Fret noise|Breath noise|Seashore|Bird tweet|Telephone|Helicopter|Applause|Gunshot`;
export const INSTRUMENTS = NAMES.replaceAll("\n", "").split("|");
