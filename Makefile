# Each target first sets up .venv; if nothing is missing, this takes seconds.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PLAYS := $(VENV)/.app
INSTALLED := $(VENV)/.installed
SECONDS ?= 600

WORK ?= build/models

# The tests start hundreds of processes; let them share compiled bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help app test test-all test-profile test-kernels test-matrix smoke lint lint-page format fuzz bench model critic kernel page \
  install fast-transformers vendor clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /: /'

app: $(PLAYS) ## open the web app
	$(BIN)/musicgen app

page: $(PLAYS) ## write the page as a folder of static files, which needs no server of its own (SITE=build/page)
	$(BIN)/musicgen page $(or $(SITE),build/page)

test: $(INSTALLED) ## run the tests, in minutes
	$(BIN)/python -m pytest

test-all: $(INSTALLED) ## run all tests, with the slow ones: kills, trainings, long sequences, the whole page in a browser
	$(BIN)/python -m pytest -m ""

test-profile: $(INSTALLED) ## run the tests and print the slowest (ARGS=-m\ long)
	$(BIN)/python -m pytest --durations=50 $(ARGS)

# Other kernels, more threads than cores, a locale without UTF-8, a random order.
KERNELS = ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE $(BIN)/python -m pytest
NUMERIC = tests/musicgen tests/evaluation tests/training

test-kernels: $(INSTALLED) ## run the numerical tests with the kernels of an old processor
	$(KERNELS) tests/musicgen/test_attention.py tests/musicgen/test_features.py tests/musicgen/test_metre.py tests/musicgen/generation

test-matrix: $(INSTALLED) ## run the tests with other kernels, threads, locales and orders
	$(KERNELS) -m "" $(NUMERIC)
	OMP_NUM_THREADS=4 MKL_NUM_THREADS=4 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest $(NUMERIC)
	LANG=C LC_ALL=C PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 $(BIN)/python -m pytest -m "" tests/app tests/training
	TESTS_SHUFFLED=1 $(BIN)/python -m pytest -m ""

smoke: ## build the wheel, install it into a fresh environment and use it there (PYTHON=python3.13)
	$(PYTHON) -m tests.tools.smoke

lint: $(INSTALLED) lint-page ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

# The page's scripts and styles; needs npx with its packages installed or a network.
PRETTIER = npx --yes prettier@3.6.2
ESLINT = npx --yes eslint@9.36.0
PAGE = "app/assets/**/*.{js,css}" "!app/assets/vendor/**"
HAS_NPX = command -v npx >/dev/null && NPM_CONFIG_FETCH_RETRIES=0 $(PRETTIER) --version >/dev/null 2>&1 \
  && NPM_CONFIG_FETCH_RETRIES=0 $(ESLINT) --version >/dev/null 2>&1

lint-page: ## check the style of the page's scripts
	@if $(HAS_NPX); then \
	  $(PRETTIER) --log-level warn --check $(PAGE) && $(ESLINT) --ignore-pattern "app/assets/vendor/**" "app/assets/**/*.js"; \
	else echo "The page's scripts are not checked: npx, or a package that it runs, is missing."; fi

format: $(INSTALLED) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@if $(HAS_NPX); then $(PRETTIER) --log-level warn --write $(PAGE); fi

fuzz: $(INSTALLED) ## feed mutated MIDI, MusicXML and ABC to readers, languages and writers (SECONDS=600)
	$(BIN)/python -m tests.tools.fuzz --seconds $(SECONDS)

bench: $(INSTALLED) ## measure speed and memory on this machine
	$(BIN)/musicgen bench

# The training sets of the model `ensemble`, and the variable that names each one's raw data: a folder or an archive.
SETS = pop909 lieder quartets polish-keyboard groove groove-songs human-drums \
  orchestra open-hymnal madrigals freedoom free-music dance-tunes
data/pop909/meta.json: RAW = POP909
data/lieder/meta.json: RAW = LIEDER
data/quartets/meta.json: RAW = QUARTETS
data/polish-keyboard/meta.json: RAW = KEYBOARD
data/groove/meta.json: RAW = GROOVE
data/groove/meta.json: ABOUT = --title "Groove: MMA accompaniments" --licence "made with MMA (GPL-2.0-or-later) over chords of POP909 (MIT)"
data/groove-songs/meta.json: RAW = SONGS
data/human-drums/meta.json: RAW = DRUMS
data/orchestra/meta.json: RAW = ORCHESTRA
data/open-hymnal/meta.json: RAW = HYMNS
data/madrigals/meta.json: RAW = MADRIGALS
data/freedoom/meta.json: RAW = FREEDOOM
data/free-music/meta.json: RAW = FILM
data/dance-tunes/meta.json: RAW = DANCES

data/%/meta.json: | $(INSTALLED)
	@test -n "$($(RAW))" || { echo "The raw data of $* is missing: make model $(RAW)=FOLDER" >&2; exit 2; }
	$(BIN)/musicgen data $* "$($(RAW))" $(@D) --language ensemble $(ABOUT)

# An interrupted training resumes.
model: $(INSTALLED) $(SETS:%=data/%/meta.json) ## train the bundled model from raw data (POP909=… LIEDER=… QUARTETS=… KEYBOARD=… GROOVE=… SONGS=… DRUMS=… ORCHESTRA=… HYMNS=… MADRIGALS=… FREEDOOM=… FILM=… DANCES=…)
	$(BIN)/musicgen train models/ensemble --resume --set run=$(WORK)/ensemble
	$(BIN)/python -m training.publish $(WORK)/ensemble musicgen/pretrained/ensemble --force

# Its takes are kept in runs/critic, so an interrupted run resumes. The bundled one has learned from these pieces.
CRITICS ?= lieder polish-keyboard quartets groove pop909
LESSONS ?= 96 96 51 64 200
critic: $(INSTALLED) $(CRITICS:%=data/%/meta.json) ## train the critic that chooses among the model's takes
	$(BIN)/python -m evaluation.critic musicgen/pretrained/ensemble $(CRITICS:%=data/%) --lessons $(LESSONS) -o runs/critic

# The kernel, built again to the same bytes by clang, which comes with ziglang (musicgen/kernel/kernel.c).
KERNEL = musicgen/kernel/kernel
WASM = -target wasm32-freestanding -mcpu=generic+simd128+bulk_memory -std=c23 -O3 -ffp-contract=off -fno-sanitize=all \
  -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -nostdlib -Wall -Wextra -Werror -Wno-sign-compare \
  -Wl,--no-entry -Wl,--strip-all -Wl,--export=__heap_base -Wl,-z,stack-size=1048576

kernel: $(INSTALLED) ## compile the kernel to WebAssembly (OUT=musicgen/kernel/kernel.wasm)
	$(BIN)/python -m ziglang cc $(WASM) -o $(or $(OUT),$(KERNEL).wasm) $(KERNEL).c

# Third-party scripts of the page, one file per package, with their licences.
VENDOR := app/assets/vendor
WITHIN_SCORE := opensheetmusicdisplay vexflow typescript-collections loglevel jszip pako lie immediate setimmediate
BUNDLE = node_modules/.bin/esbuild --bundle --format=esm --minify --legal-comments=none

vendor: ## build the page's synthesizer and score renderer from npm packages, by app/vendor/package-lock.json
	rm -rf build/vendor && mkdir -p build && cp -R app/vendor build/vendor
	cd build/vendor && npm ci --no-audit --no-fund --ignore-scripts
	cd build/vendor && { echo 'export { WorkletSynthesizer, audioBufferToWav } from "spessasynth_lib";'; \
	  echo 'export { BasicMIDI } from "spessasynth_core";'; } | $(BUNDLE) --outfile=synthesizer.js
	cd build/vendor && echo 'export { OpenSheetMusicDisplay } from "opensheetmusicdisplay";' | $(BUNDLE) --outfile=osmd.js
	cp build/vendor/synthesizer.js $(VENDOR)/spessasynth/synthesizer.js
	cp build/vendor/osmd.js $(VENDOR)/osmd/osmd.js
	grep -v sourceMappingURL build/vendor/node_modules/spessasynth_lib/dist/spessasynth_processor.min.js \
	  > $(VENDOR)/spessasynth/processor.js
	cp build/vendor/node_modules/spessasynth_lib/LICENSE $(VENDOR)/spessasynth/LICENSE
	cp build/vendor/node_modules/stb-vorbis/LICENSE $(VENDOR)/spessasynth/LICENSE.stb-vorbis
	cd build/vendor/node_modules && for name in $(WITHIN_SCORE); do \
	  echo "$$name"; echo; sed '/^GPL version 3/,$$d' $$name/[lL][iI][cC]*; echo; done > ../LICENSE
	cp build/vendor/LICENSE $(VENDOR)/osmd/LICENSE

install: $(INSTALLED) ## set up .venv only, with everything

# pip writes INSTALLER last: a package without it is incomplete, although pip considers it installed.
PIP := $(BIN)/python -m pip --disable-pip-version-check
WHOLE := $(BIN)/python -I -c 'from importlib.metadata import distributions as d, version as v; v("pip"); \
  exit(any(p.read_text("INSTALLER") is None for p in d()))' 2>/dev/null
ifneq ($(shell $(WHOLE) && echo whole),whole)
.PHONY: $(PLAYS) $(INSTALLED)
endif

# What the page needs; the rest comes with the first target that trains, evaluates or tests.
$(PLAYS): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; make PYTHON=python3.12 names another")'
	$(WHOLE) || $(PYTHON) -m venv --clear $(VENV)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[app]'
	touch $@

# torch goes before what needs it. PyPI's build for Linux brings CUDA, 2.7 GB; without an NVIDIA GPU it comes from
# PyTorch's CPU index, unless pip is configured with another index.
$(INSTALLED): $(PLAYS)
	if [ "$$(uname)" != Linux ] || command -v nvidia-smi || $(PIP) config list | grep -E '^[^=]*(index-url|find-links|no-index)='; \
	  then index=; else index='--index-url https://download.pytorch.org/whl/cpu'; fi >/dev/null; \
	$(PIP) install --quiet $$index "$$(grep '^torch==' constraints.txt)"
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# The package builds against the installed torch (no build isolation), in some minutes. If it finds nvcc on the PATH it
# builds for CUDA, which fails with a CPU build of torch: each folder with nvcc is then replaced by links to its other
# files.
fast-transformers: $(INSTALLED) ## compile the optional attention kernels of pytorch-fast-transformers
	$(PIP) install --quiet setuptools wheel
	set -e; shadow=$$(mktemp -d); trap 'rm -rf "$$shadow"' EXIT; path=$$PATH; \
	if $(BIN)/python -c 'import sys, torch; sys.exit(torch.version.cuda is not None)'; then \
	  unset CUDA_HOME CUDA_PATH; path=; count=0; old_ifs=$$IFS; IFS=:; \
	  for folder in $$PATH; do \
	    if [ -x "$$folder/nvcc" ]; then \
	      count=$$((count + 1)); mkdir "$$shadow/$$count"; ln -s "$$folder"/* "$$shadow/$$count/"; \
	      rm "$$shadow/$$count/nvcc"; folder=$$shadow/$$count; \
	    fi; \
	    path=$$path$${path:+:}$$folder; \
	  done; IFS=$$old_ifs; \
	fi; \
	PATH=$$path $(PIP) install --no-build-isolation \
	  --constraint constraints.txt --editable '.[fast-transformers]'

clean: ## remove .venv
	rm -rf $(VENV) *.egg-info
