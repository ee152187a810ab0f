# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Any Python from 3.11 on; Debian 12's own will do.
PYTHON ?= python3
SCENARIO ?=
CORE ?=
BUNDLE ?=
RETRY ?=
START := $(PYTHON) -m tests.build.start
VENV := .venv/bin

.DEFAULT_GOAL := help
.NOTPARALLEL:

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | awk -F '\t' '{printf "  make %-16s %s\n", $$1, $$2}'

.PHONY: setup
setup: ## Install what the build needs; RETRY=1 tries again what could not be had before
	@RETRY="$(RETRY)" $(START) setup

.PHONY: site
site: setup ## Show the main job: a local EC2-like node, configured by ansible-playbook site.yml
	@PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/python -m tests.rig.demo.site

.PHONY: test
test: ## Run the whole suite that fits the time of a continuous-integration run
	@$(START) test

.PHONY: test-all
test-all: ## Run every test there is, virtual machines included (hours)
	@$(START) test-all

.PHONY: test-vm-all
test-vm-all: ## Run every virtual-machine test
	@$(START) vm_all

.PHONY: test-matrix
test-matrix: ## Run the inventory's tests on ansible-core 2.17 to 2.21
	@$(START) matrix

.PHONY: quick
quick: ## Check what differs from main in under 90 seconds: style, house rules, unit tests
	@$(START) quick

.PHONY: lint
lint: ## Check style and types (about a minute when warm)
	@$(START) lint

.PHONY: format
format: setup ## Bring Python into the project's style
	@.venv-lint/bin/ruff check --quiet --fix-only .
	@.venv-lint/bin/ruff format --quiet .

.PHONY: sanity
sanity: ## Run ansible-test sanity; CORE=2.21 for that ansible-core
	@$(START) sanity $(CORE)

.PHONY: unit
unit: ## Run the unit tests
	@$(START) unit

.PHONY: integration
integration: ## Run the tests that start Ansible against local stand-ins for AWS
	@$(START) integration

.PHONY: slurm
slurm: ## Run the tests on a real Slurm, and a test of each subject on Slurm 24.11
	@$(START) slurm
	@$(START) slurm_newer

.PHONY: data
data: ## Run the tests of the data programs
	@$(START) data

.PHONY: molecule
molecule: ## Run the container tests; SCENARIO=name for one scenario
	@$(START) molecule $(SCENARIO)

.PHONY: vm
vm: ## Run the virtual-machine tests of the suite; SCENARIO=word for those whose name has it
	@$(START) $(if $(SCENARIO),vm_all -k $(SCENARIO),vm)

.PHONY: rig-clean
rig-clean: ## Remove test containers, test machines and their caches
	@$(PYTHON) -m tests.build.containers clean
	@if [ -x $(VENV)/python ]; then $(VENV)/python -m tests.rig.vm clean; fi

.PHONY: pcluster
pcluster: ## Install AWS ParallelCluster whole, with Node.js: what create_cluster.yml calls
	@$(START) pcluster

.PHONY: bench
bench: setup ## Measure round trips and seconds of the roles
	@$(VENV)/python -m tests.bench

.PHONY: lock
lock: ## Write the Python lock files again, newest versions first (needs the package index)
	@PYTHON=$(PYTHON) requirements/lock.sh

.PHONY: lock-artifacts
lock-artifacts: setup ## Download, check and pin the artifacts that roles install
	@$(VENV)/python tests/data_tables/lock_artifacts.py

.PHONY: dashboard
dashboard: ## Write the Grafana dashboard again
	@$(START) dashboard

.PHONY: pictures
pictures: setup ## Draw the pictures of the README again (needs chromium-headless-shell)
	@$(VENV)/python -m tests.docs_check.pictures

.PHONY: docs
docs: setup ## Write the generated parts of the documentation again, and build the site into docs/_build/html
	@$(VENV)/python -m tests.docs_check.role_docs
	@$(VENV)/python -m tests.data_tables.make_checks
	@$(VENV)/python -m tests.docs_check.guide_tables
	@$(VENV)/python -m tests.build.layers
	@$(START) docs_site

.PHONY: build
build: setup ## Build the collection archive into dist/
	@$(VENV)/ansible-galaxy collection build --force --output-path dist

.PHONY: bundle
bundle: setup ## Build what nodes configure themselves from; BUNDLE='-e build_bundle_bucket=NAME' uploads it
	@$(VENV)/ansible-playbook playbooks/build_bundle.yml $(BUNDLE)

.PHONY: mutants
mutants: setup ## Change a module in small ways and run its unit tests: MODULE=plugins/... ARGS='--number 40 --seed 1'
	@$(VENV)/python -m tests.build.mutants $(MODULE) $(ARGS)

.PHONY: clean
clean: ## Remove what the build made, environments included
	rm -rf .venv .venv-lint .venv-data .venv-docs .venv-dashboard .venv-image .venv-pcluster .collections .build dist docs/_build tests/output
