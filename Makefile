# Each command sets up what it needs in .venv and costs seconds when nothing is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SECONDS ?= 600
COUNTS ?= build/fuzz.json

WORK ?= build/models

.PHONY: help app test test-all test-profile test-kernels test-matrix smoke lint format fuzz bench models model \
  install fast-transformers vendor clean

help: ## say what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /: /'

app: $(INSTALLED) ## open the web app
	$(BIN)/musicgen app

test: $(INSTALLED) ## run the tests that take minutes
	$(BIN)/python -m pytest

test-all: $(INSTALLED) ## run all tests: kills, long trainings, long sequences, the whole page in a browser
	$(BIN)/python -m pytest -m ""

test-profile: $(INSTALLED) ## run the tests and print what they spend their time on (ARGS=-m\ long)
	$(BIN)/python -m tests.tools.profile $(ARGS)

# Other kernels, more threads than cores, a locale without UTF-8, another order.
KERNELS = ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_CBWR=COMPATIBLE $(BIN)/python -m pytest
NUMERIC = tests/musicgen tests/evaluation tests/training

test-kernels: $(INSTALLED) ## run the tests of the model's arithmetic with the kernels of an old processor
	$(KERNELS) tests/musicgen/attention tests/musicgen/layers tests/musicgen/metre tests/musicgen/generation

test-matrix: $(INSTALLED) ## run the tests as on other machines: other kernels, threads, locale and order
	$(KERNELS) -m "" $(NUMERIC)
	OMP_NUM_THREADS=4 MKL_NUM_THREADS=4 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest $(NUMERIC)
	LANG=C LC_ALL=C PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 $(BIN)/python -m pytest -m "" tests/app tests/training
	TESTS_SHUFFLED=1 $(BIN)/python -m pytest -m ""

smoke: ## build the wheel, install it into a fresh environment, use it from there (PYTHON=python3.13)
	$(PYTHON) -m tests.tools.smoke

lint: $(INSTALLED) ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

format: $(INSTALLED) ## put the code into form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(INSTALLED) ## mutate MIDI files through reader, languages and writer (SECONDS=600)
	$(BIN)/python -m tests.tools.fuzz --seconds $(SECONDS) --counts $(COUNTS)

bench: $(INSTALLED) ## speed and memory of this machine
	$(BIN)/musicgen bench

RAW = POP909=$(or $(POP909),…) LIEDER=$(or $(LIEDER),…) GROOVE=$(or $(GROOVE),…) SONGS=$(or $(SONGS),…) DRUMS=$(or $(DRUMS),…)

models: $(INSTALLED) ## train the models that ship (POP909=… LIEDER=… GROOVE=… SONGS=… DRUMS=…: the raw data, folders or archives)
	@test -n "$(POP909)" -a -n "$(LIEDER)" -a -n "$(GROOVE)" -a -n "$(SONGS)" -a -n "$(DRUMS)" || \
	  { echo "make models $(RAW): where is the raw data that is marked …?" >&2; exit 2; }
	set -e; for name in pop-piano groove pop-piano-2 groove-2; do $(MAKE) model NAME=$$name; done

PUBLISH = $(BIN)/python -m training.results.publish

# What is prepared of the raw data: a folder each, from what, and how.
ABOUT_GROOVE = --title "Groove: MMA accompaniments" --licence "made with MMA (GPL-2.0-or-later) over chords of POP909 (MIT)"
$(WORK)/data/pop909-remi/meta.json: RECIPE = pop909 "$(POP909)" $(@D) --language remi
$(WORK)/data/pop909/meta.json: RECIPE = pop909 "$(POP909)" $(@D)
$(WORK)/data/lieder/meta.json: RECIPE = lieder "$(LIEDER)" $(@D)
$(WORK)/data/groove/meta.json: RECIPE = groove "$(GROOVE)" $(@D) $(ABOUT_GROOVE)
$(WORK)/data/groove-2/meta.json: RECIPE = groove "$(GROOVE)" $(@D) --language groove-2 $(ABOUT_GROOVE)
$(WORK)/data/groove-songs/meta.json: RECIPE = groove-songs "$(SONGS)" $(@D) --language groove-2
$(WORK)/data/human-drums/meta.json: RECIPE = human-drums "$(DRUMS)" $(@D) --language groove-2

$(WORK)/data/%/meta.json: | $(INSTALLED)
	$(BIN)/musicgen data $(RECIPE)

DATA_OF_pop-piano = pop909-remi
DATA_OF_groove = groove
DATA_OF_pop-piano-2 = pop909 lieder
DATA_OF_groove-2 = groove-2 groove-songs human-drums
# What parts are blended with, each a part before it, and how loudly goals are told then.
BLENDS = groove-2-fifth) blend="--blend $(WORK)/groove-2-fourth-model --share 0.3";; \
  pop-piano-2-fourth) blend="--blend $(WORK)/pop-piano-2-third-model --share 0.4 --louder 1.5";; \
  pop-piano-2-fifth) blend="--blend $(WORK)/pop-piano-2-fourth-model --share 0.4 --louder 1.4";; \
  pop-piano-2-sixth) blend="--blend $(WORK)/pop-piano-2-fifth-model --share 0 --louder 1.4";; \
  pop-piano-2-seventh) blend="--blend $(WORK)/pop-piano-2-sixth-model --share 0 --louder 1.4";; \
  pop-piano-2) blend="--blend $(WORK)/pop-piano-2-seventh-model --share 0 --louder 1.4";; \
  groove-2-sixth) blend="--blend $(WORK)/groove-2-fifth-model --share 0.3";; \
  groove-2-seventh) blend="--blend $(WORK)/groove-2-sixth-model --share 0.4";; \
  groove-2-eighth) blend="--blend $(WORK)/groove-2-seventh-model --share 0 --louder 1.4";;
NEEDED = $(DATA_OF_$(NAME))
COMMA := ,
SPACE := $(subst ,, )
listed = [$(subst $(SPACE),$(COMMA),$(1:%=$(WORK)/data/%))]
# What a part learns from more than once.
SHARES = pop-piano-2-fifth|pop-piano-2-sixth|pop-piano-2-seventh|pop-piano-2) folders="$(call listed,pop909 pop909 pop909 lieder)";; \
  groove-2-seventh|groove-2-eighth|groove-2) folders="$(call listed,groove-2 groove-2 groove-songs human-drums)";;

# A model's parts, each of which learns on from the one before; with SIZE=small, for a GPU, there is one.
ORDER = -first -second -third -fourth -fifth -sixth -seventh -eighth
PARTS = $(if $(SIZE),$(NAME)-$(SIZE),$(patsubst training/configs/models/%.yaml,%,$(wildcard \
  $(ORDER:%=training/configs/models/$(NAME)%.yaml) training/configs/models/$(NAME).yaml)))

# Interrupted, it goes on where it was.
model: $(INSTALLED) $(NEEDED:%=$(WORK)/data/%/meta.json) ## train one of them (NAME=groove GROOVE=groove.tar.xz; SIZE=small on a GPU)
	@test -n "$(PARTS)" || { echo "make model NAME=groove: there is no model '$(NAME)'" >&2; exit 2; }
	set -e; start=; for part in $(PARTS); do \
	  case $$part in $(SHARES) *) folders="$(call listed,$(NEEDED))";; esac; \
	  $(BIN)/musicgen train models/$$part --resume --set "data.folder=$$folders" --set run=$(WORK)/$$part $$start; \
	  model=$(WORK)/$$part-model; start="--start $$model"; \
	  case $$part in $(BLENDS) *) blend=;; esac; \
	  if [ $$part = $(lastword $(PARTS)) ]; then $(PUBLISH) $(WORK)/$$part musicgen/pretrained/$(NAME) $$blend; \
	  elif [ ! -f $$model/README.md ]; then $(PUBLISH) $(WORK)/$$part $$model $$blend; fi; \
	done

install: $(INSTALLED) ## the set-up alone

# torch goes first and by its exact version, so that no newer build with gigabytes of GPU libraries is drawn in.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; make PYTHON=python3.12 names another")'
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)  # none, or half of one
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
