# SPDX-License-Identifier: Apache-2.0

# VERSION is what git describe prints, without the v of a tag. Without git it is the file VERSION, with -dev.
RELEASED := $(shell cat VERSION)
VERSION ?= $(patsubst v%,%,$(shell git describe --tags --always --dirty 2>/dev/null || echo '$(RELEASED)-dev'))
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.12.0
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# The system tests reach the product by its binary, which no cache of results sees. Unit tests whose packages have
# not changed since they passed do not run again, unless CI is set.
TESTFLAGS ?= -timeout 60m -parallel 6
RUN_ALL = -count 1

# Found, or fetched on a fresh Debian, when a recipe first needs it.
GO = $(eval GO := $$(shell ./test/deps.sh go))$(or $(GO),$(error no Go, see above))

# deploy is a module of its own, so that the product's go.mod lacks what only deploy requires.
MODULES = . deploy

.PHONY: all build plugins test test-units test-system test-release test-deploy mutations coredns-suite respdiff matrix kernel neutron soak demo demo-egress recording pictures bench image oci release push publish lint vuln fuzz clean lab-deps man release-files deb rpm packages-test reproducible
all: build

# The binaries of the distribution: static, so that they run from an empty image.
# Without the stamp of git, which depends on the tags that a clone has.
BUILD = CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)'
build:
	$(BUILD) -o bin/ ./cmd/puntdns ./cmd/puntctl

# The imports and the order of the plugins in plugin.cfg, as Go, and modules that a new plugin needs.
plugins:
	$(GO) generate ./plugins
	$(GO) get ./plugins

# All manual pages, for man -M bin/share/man, and the completions of shells, as packages have them.
WRITE_MAN = GO='$(GO)' MD2MAN='$(GO) run $(MD2MAN)' ./deploy/package/man.sh '$(VERSION)'
man:
	rm -rf bin/share
	$(WRITE_MAN) bin/share

lab-deps:
	./test/deps.sh lab

# Tests are compiled as the binaries are, so that both share what is compiled; make lint runs vet.
# RACE=1 has the race detector in tests and program. The detector would wait for a second before the
# end of each process.
RACE ?=
ifeq ($(RACE),)
TESTENV = CGO_ENABLED=0
TESTMODE = -trimpath -vet=off
UNDER_TEST = bin/puntdns
HALVES = 2
else
TESTENV = CGO_ENABLED=1 GORACE="atexit_sleep_ms=100 $$GORACE"
TESTMODE = -race
UNDER_TEST = bin/race/puntdns
HALVES = 1
endif
SYSTEM_TESTS = PUNTDNS='$(CURDIR)/$(UNDER_TEST)' ./test/suite.sh

# Every test but those of test-release, on the real OVN too. Unit tests and system tests run beside each
# other, and both to their end. make prints the output of each as a whole. With RACE=1 they run one after the
# other: the detector takes most of two processors.
test: lab-deps $(UNDER_TEST)
	@$(MAKE) --no-print-directory --keep-going --jobs=$(HALVES) --output-sync=target test-system test-units

# Each half of test, which builds what it needs.
test-units:
	@packages=$$($(GO) list ./...) && export $(TESTENV) && \
	$(GO) test $(TESTMODE) $(TESTFLAGS) $(if $(CI),$(RUN_ALL)) -p 2 $$(echo "$$packages" | grep -Ev '/puntdns/(test|test/bench)$$')
test-system:
	@$(TESTENV) $(SYSTEM_TESTS) $(GO) $(TESTMODE) $(TESTFLAGS) $(RUN_ALL)

# What takes long and seldom breaks: the image, programs that others build, what deploy has, each line
# of the benchmarks once, the soak for a moment, a JVM, and guests that fill the machine.
test-release: lab-deps $(UNDER_TEST)
	@export $(TESTENV); failed=0; \
	./test/deps.sh java || failed=1; \
	$(MAKE) --no-print-directory test-deploy || failed=1; \
	$(GO) test $(TESTMODE) $(TESTFLAGS) $(RUN_ALL) ./test/bench || failed=1; \
	$(SYSTEM_TESTS) release $(GO) $(TESTMODE) $(TESTFLAGS) $(RUN_ALL) || failed=1; \
	exit $$failed

test-deploy: lab-deps
	@export $(TESTENV) && $(GO) test -C deploy $(TESTMODE) $(TESTFLAGS) $(RUN_ALL) -p 2 ./...

.PHONY: bin/puntdns bin/race/puntdns
bin/puntdns: build
bin/race/puntdns:
	CGO_ENABLED=1 $(GO) build -race -o $@ ./cmd/puntdns

# Mistakes planted in the product, each of which some test has to catch: see test/mutations.
# MUTATIONFLAGS='-only cache' are those with that in their names.
MUTATIONFLAGS ?=
mutations: lab-deps
	$(GO) run ./test/mutations $(MUTATIONFLAGS)

# CoreDNS's own system tests, with the plugins of puntdns and without: what differs. Run it after a bump of CoreDNS.
coredns-suite:
	$(GO) run ./test/corednssuite

# The demo and the system tests on each release of OVN that a Debian has, and a few on
# the kernel's datapath; test/core.txt says which tests. MATRIX=short takes a part of them.
MATRIX ?= core
matrix: lab-deps
	GO='$(GO)' MATRIX=$(MATRIX) ./test/matrix.sh

# The last row of it alone: the kernel's datapath, in an emulated machine, which takes neither
# KVM nor a module. KERNELFLAGS, as -test.run=NAME, are for the test binary, in the place of
# what test/core.txt says.
kernel:
	GO='$(GO)' MATRIX=$(MATRIX) ./test/kernel.sh $(KERNELFLAGS)

# Ports, records, connections and Corefiles come and go under load, and then closed guests resolve and connect, each for SOAK.
# On OVN of Debian sid: SOAK=10m make matrix MATRIX_RELEASES=sid MATRIX_KERNEL=no MATRIX_FLAGS='-test.skip=^$$ -test.run=Soak'
SOAK ?= 10m
soak: lab-deps build
	SOAK=$(SOAK) CGO_ENABLED=1 $(GO) test -race -count 1 -timeout 0 -v -run '^Test(Egress)?Soak$$' ./test

# Under a real Neutron, as docs/openstack.md says: see test/neutron. Its packages are in a root
# of their own. KEEP=1 leaves it all up; NEUTRONFLAGS='-test.run TestOVS' is for ML2/OVS alone.
NEUTRONFLAGS ?=
NEUTRON_PACKAGES := neutron-common neutron-api neutron-rpc-server neutron-openvswitch-agent \
	neutron-ovn-metadata-agent neutron-ovn-maintenance-worker neutron-dhcp-agent \
	ovn-central ovn-host openvswitch-switch rabbitmq-server mariadb-server python3-pymysql \
	python3-openstackclient uwsgi-plugin-python3 haproxy udhcpc bind9-dnsutils iproute2 ethtool procps
neutron: lab-deps bin/race/puntdns
	CGO_ENABLED=1 $(GO) test -race -tags neutron -c -o bin/neutron.test ./test/neutron
	root=$$(./test/root.sh sid neutron $(NEUTRON_PACKAGES)) && \
	./test/inroot.sh "$$root" env -C test/neutron PUNTDNS='$(CURDIR)/bin/race/puntdns' KEEP='$(KEEP)' \
		../../bin/neutron.test -test.timeout 60m $(NEUTRONFLAGS)

# Two tenants with the same addresses ask for names. KEEP=1 leaves it all up.
demo: lab-deps build
	$(GO) run ./test/demo -puntdns bin/puntdns

# A guest reaches the addresses of names that its policy allows, and no others. KEEP=1 leaves it all up.
demo-egress: lab-deps build
	$(GO) run ./test/demo -egress -puntdns bin/puntdns

# The demo and puntctl explain, recorded anew and drawn: docs/demo.svg.
recording: lab-deps build
	$(GO) run ./test/demo -puntdns bin/puntdns -record test/pictures/demo.txt
	$(GO) run ./test/pictures

# The drawings of the pages, from their descriptions and from committed figures: nothing is measured.
pictures:
	$(GO) run ./test/pictures

# Peers and puntdns in turn, into test/bench/results. It wants a machine of its own for half an hour and
# more. The suite peers makes a root folder of Debian sid; without it, or with -root '', the page says that
# its rows are missing. A suite that fails is named on the page; the others go on, and the exit status is 1.
# docs/performance.md has more.
BENCHFLAGS ?=
# The stock CoreDNS is of the version in go.mod.
COREDNS := $(shell sed -n 's,^.*github.com/coredns/coredns ,,p' go.mod)
bench: lab-deps build bin/coredns-$(COREDNS)
	$(GO) run ./test/bench -puntdns bin/puntdns -coredns bin/coredns-$(COREDNS) $(BENCHFLAGS)
	$(GO) run ./test/pictures

bin/coredns-$(COREDNS):
	GOBIN=$(CURDIR)/bin CGO_ENABLED=0 $(GO) install github.com/coredns/coredns@$(COREDNS)
	mv bin/coredns $@

# A stock CoreDNS, Unbound and puntdns are asked the same questions: what differs, and why. Run it after a bump of
# CoreDNS. RESPDIFFFLAGS=-all prints each difference.
RESPDIFFFLAGS ?=
respdiff: lab-deps build bin/coredns-$(COREDNS)
	$(GO) run ./test/respdiff -puntdns bin/puntdns -coredns bin/coredns-$(COREDNS) $(RESPDIFFFLAGS)

# What packages and images are made of, for each of ARCHES: the program, which is puntctl too where
# it is called so, the licences of what is linked and a bill of materials (SBOM). For all architectures: manual
# pages, and the certificates that images trust. The same commit gives the same bytes.
ARCHES ?= amd64 arm64
NFPM := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0
MD2MAN := github.com/cpuguy83/go-md2man/v2@v2.0.7
RELEASE ?= bin/release
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
release-files:
	rm -rf $(RELEASE)/share $(ARCHES:%=$(RELEASE)/%) $(ARCHES:%=$(RELEASE)/licences/%)
	$(WRITE_MAN) $(RELEASE)/share
	$(GO) run -C deploy ./image roots >$(RELEASE)/ca-certificates.crt
	for arch in $(ARCHES); do \
		GOARCH=$$arch $(BUILD) -o $(RELEASE)/$$arch/puntdns ./cmd/puntdns || exit 1; \
		$(GO) run -C deploy ./licences -out '$(abspath $(RELEASE))'/licences/$$arch '$(abspath $(RELEASE))'/$$arch/puntdns || exit 1; \
		$(GO) run -C deploy ./sbom -version '$(VERSION)' '$(abspath $(RELEASE))'/$$arch/puntdns >$(RELEASE)/puntdns_$$arch.cdx.json || exit 1; \
	done

# Packages for Debian and its like, and for Fedora and its like, in bin/release.
deb rpm: release-files
	for arch in $(ARCHES); do \
		NFPM='$(GO) run $(NFPM)' ./deploy/package/package.sh $@ $$arch '$(VERSION)' $(RELEASE) || exit 1; \
	done

# Two clones in other places, each with a build cache of its own, make the same release of the last commit.
reproducible:
	GO='$(GO)' ./deploy/package/reproducible.sh

# A release: what users download, in dist/VERSION. VERSION is the version in the file VERSION, and all changes
# are committed. The Go is the one that test/deps.sh names, so the same commit gives the same bytes anywhere.
DIST ?= dist/$(VERSION)
REPOSITORY ?= ghcr.io/puntdns/puntdns
release: export GOTOOLCHAIN = go$(shell ./test/deps.sh version)
release:
	$(GO) run -C deploy ./release check '$(VERSION)'
	rm -rf $(DIST)
	$(MAKE) deb rpm oci RELEASE=$(DIST)/work IMAGE=$(REPOSITORY):$(VERSION)
	$(GO) run -C deploy ./licences -out '$(abspath $(DIST))'/work/licences/all $(ARCHES:%='$(abspath $(DIST))'/work/%/puntdns)
	GO='$(GO)' $(GO) run -C deploy ./release finish -version '$(VERSION)' -image $(REPOSITORY):$(VERSION) \
		-from '$(abspath $(DIST))'/work '$(abspath $(DIST))'

# Pushes the image in dist/VERSION to REPOSITORY and signs it. The credentials are docker's, or those of
# REGISTRY_USER and REGISTRY_PASSWORD in the environment. cosign signs as the workflow of the release, or with
# COSIGN_FLAGS='--key FILE'.
COSIGN := github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3
COSIGN_FLAGS ?=
push:
	[ -z "$$REGISTRY_PASSWORD" ] || printf %s "$$REGISTRY_PASSWORD" | \
		$(GO) run $(COSIGN) login --username "$$REGISTRY_USER" --password-stdin $(firstword $(subst /, ,$(REPOSITORY)))
	pushed=$$($(GO) run -C deploy ./image push $(REPOSITORY):$(VERSION) $(ARCHES:%='$(abspath $(DIST))'/puntdns-image_$(VERSION)_%.tar)) && \
		$(GO) run $(COSIGN) sign --yes --recursive $(COSIGN_FLAGS) "$$pushed"

# Signs the checksums in dist/VERSION, and makes a release on GitHub of the folder, by GH_TOKEN of the environment.
publish:
	./test/deps.sh publish
	cd $(DIST) && $(GO) run $(COSIGN) sign-blob --yes $(COSIGN_FLAGS) --bundle SHA256SUMS.sigstore.json SHA256SUMS
	gh release create v$(VERSION) --verify-tag --title 'puntdns $(VERSION)' \
		--notes-file $(DIST)/NOTES.md $(DIST)/*

# Installed, upgraded under load, removed and purged on Debian 12 and 13 with systemd, in containers;
# and as docs/ovn.md and docs/upgrade.md have it, command by command. PACKAGES is the folder of a release whose
# packages are taken in the place of new ones.
PACKAGES ?=
packages-test: export PUNTDNS_PACKAGES = $(abspath $(PACKAGES))
packages-test: lab-deps
	./test/deps.sh packages
	$(GO) test -C deploy -tags packages -count 1 -timeout 30m -v -run '^(TestPackage|TestPackageLintian|TestNewUser|TestFromHand)$$' . $(PACKAGESFLAGS)

# Container images from scratch as archives in bin/release, for each of ARCHES, with bills of materials. IMAGE
# is the name in them.
IMAGE ?= puntdns:$(VERSION)
oci: release-files
	for arch in $(ARCHES); do \
		name='$(IMAGE)'; [ -z '$(APART)' ] || [ $$arch = "$$($(GO) env GOHOSTARCH)" ] || name=$$name-$$arch; \
		$(GO) run -C deploy ./image archive -arch $$arch -version '$(VERSION)' -name "$$name" \
			-out '$(abspath $(RELEASE))'/puntdns-image_$$arch.tar '$(abspath $(RELEASE))' || exit 1; \
		$(GO) run -C deploy ./sbom -version '$(VERSION)' '$(abspath $(RELEASE))'/$$arch/puntdns '$(abspath $(RELEASE))'/ca-certificates.crt \
			>$(RELEASE)/puntdns-image_$$arch.cdx.json || exit 1; \
	done

# The same, loaded into a container engine, docker or podman. The image of this machine's architecture has
# the name IMAGE, others have -ARCH behind it.
DOCKER ?= docker
image: APART = yes
image: oci
	for arch in $(ARCHES); do $(DOCKER) load --input $(RELEASE)/puntdns-image_$$arch.tar || exit 1; done

# The linter keeps what it found by absolute path, and so may report files of another checkout: each
# checkout has a cache of its own.
lint: export GOLANGCI_LINT_CACHE = $(CURDIR)/bin/lint
lint: build
	@test -z "$$(gofmt -l *.go cmd deploy internal ofpunt plugin plugins test | tee /dev/stderr)"
	for module in $(MODULES); do \
		$(GO) vet -C $$module -tags neutron,packages ./... || exit 1; \
		$(GO) run -C $$module $(STATICCHECK) -tags neutron,packages ./... || exit 1; \
		$(GO) run -C $$module $(GOLANGCI_LINT) run ./... || exit 1; \
	done
	$(GO) run $(ACTIONLINT) .github/workflows/*.yml

# Known vulnerabilities in what is linked, where their database can be reached.
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.1.4
vuln:
	for module in $(MODULES); do $(GO) run -C $$module $(GOVULNCHECK) ./... || exit 1; done

# A minute of each fuzz target.
FUZZTIME ?= 60s
fuzz:
	@for p in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; \
		done; \
	done

clean:
	rm -rf bin dist
