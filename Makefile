# Each command sets up what it needs in .venv and costs seconds when nothing is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SECONDS ?= 600

WORK ?= build/models

.PHONY: help app test test-matrix smoke lint format fuzz bench models model install fast-transformers vendor clean

help: ## say what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /: /'

app: $(INSTALLED) ## open the web app
	$(BIN)/musicgen app

test: $(INSTALLED) ## run the tests
	$(BIN)/python -m pytest

test-matrix: $(INSTALLED) ## run the tests as on other machines, a line each (ROWS="threads-2 lang-c", or all)
	$(BIN)/python -m tests.matrix $(ROWS)

smoke: ## build the wheel, install it into a fresh environment, use it from there (PYTHON=python3.13)
	$(PYTHON) -m tests.smoke

lint: $(INSTALLED) ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

format: $(INSTALLED) ## put the code into form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(INSTALLED) ## mutate MIDI files through the reader and both tokenizers (SECONDS=600)
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS)

bench: $(INSTALLED) ## speed and memory of this machine
	$(BIN)/musicgen bench

models: $(INSTALLED) ## train the models that ship (POP909=… GROOVE=…: the raw data, folders or archives; SIZE=small on a GPU)
	@test -n "$(POP909)" -a -n "$(GROOVE)" || { echo "make models POP909=pop909.tar.xz GROOVE=groove.tar.xz: where is the raw data?" >&2; exit 2; }
	$(MAKE) model NAME=pop-piano SOURCE=pop909 FROM="$(POP909)" LANGUAGE=remi
	$(MAKE) model NAME=groove SOURCE=groove FROM="$(GROOVE)" TITLE="Groove: MMA accompaniments" \
	  LICENCE="made with MMA (GPL-2.0-or-later) over chords of POP909 (MIT)"

PUBLISH = $(BIN)/python -m training.publish

# A model's parts, each of which learns on from the one before; on a GPU there is one.
PARTS = $(if $(SIZE),$(NAME)-$(SIZE),$(patsubst training/configs/models/%.yaml,%,$(wildcard \
  $(addprefix training/configs/models/$(NAME),-first.yaml -second.yaml .yaml))))

$(WORK)/data/%/meta.json: | $(INSTALLED)
	$(BIN)/musicgen data $(SOURCE) "$(FROM)" $(@D) --title "$(TITLE)" --licence "$(LICENCE)" $(if $(LANGUAGE),--language $(LANGUAGE))

# Interrupted, it goes on where it was.
model: $(INSTALLED) $(WORK)/data/$(NAME)/meta.json ## train one of them (NAME=groove SOURCE=groove FROM=groove.tar.xz)
	@test -n "$(PARTS)" || { echo "make model NAME=groove: there is no model '$(NAME)'" >&2; exit 2; }
	set -e; start=; for part in $(PARTS); do \
	  $(BIN)/musicgen train models/$$part --resume --set data.folder=$(WORK)/data/$(NAME) --set run=$(WORK)/$$part $$start; \
	  model=$(WORK)/$$part-model; start="--start $$model"; \
	  if [ $$part = $(lastword $(PARTS)) ]; then $(PUBLISH) $(WORK)/$$part musicgen/pretrained/$(NAME); \
	  elif [ ! -f $$model/README.md ]; then $(PUBLISH) $(WORK)/$$part $$model; fi; \
	done

# The one script of the page that is not ours: its packages at these versions, in two files and with their licences.
VENDOR := app/assets/vendor/spessasynth
VENDORED := spessasynth_lib@4.3.14 spessasynth_core@4.3.22 esbuild@0.28.2

vendor: ## build the page's synthesizer anew from its npm packages (takes npm and a network)
	rm -rf build/vendor && mkdir -p build/vendor
	cd build/vendor && npm install --no-audit --no-fund --no-save --prefix . $(VENDORED)
	echo 'export { WorkletSynthesizer } from "spessasynth_lib";' > build/vendor/entry.js
	cd build/vendor && node_modules/.bin/esbuild entry.js --bundle --format=esm --minify --legal-comments=none \
	  --outfile=synthesizer.js
	cp build/vendor/synthesizer.js $(VENDOR)/synthesizer.js
	grep -v sourceMappingURL build/vendor/node_modules/spessasynth_lib/dist/spessasynth_processor.min.js > $(VENDOR)/processor.js
	cp build/vendor/node_modules/spessasynth_lib/LICENSE $(VENDOR)/LICENSE
	cp build/vendor/node_modules/stb-vorbis/LICENSE $(VENDOR)/LICENSE.stb-vorbis

install: $(INSTALLED) ## the set-up alone

# torch goes first and by its exact version, so that no newer build with gigabytes of GPU libraries is drawn in.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; make PYTHON=python3.12 names another")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

# The package builds against the torch at hand (no build isolation), for some minutes. It takes an nvcc on the PATH for a
# CUDA build, which fails where torch is a CPU build: a folder with nvcc is then replaced by links to all else in it.
fast-transformers: $(INSTALLED) ## compile the optional attention kernels of pytorch-fast-transformers
	$(BIN)/python -m pip install --quiet --disable-pip-version-check setuptools wheel
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
	PATH=$$path $(BIN)/python -m pip install --disable-pip-version-check --no-build-isolation \
	  --constraint constraints.txt --editable '.[fast-transformers]'

clean: ## remove the set-up
	rm -rf $(VENV) *.egg-info
