// SPDX-License-Identifier: Apache-2.0

// Command sbom lists what is in Go programs, and in other files that are shipped with them: a bill
// of materials in CycloneDX 1.6, in JSON (https://cyclonedx.org/docs/1.6/json/). Of a program it has
// each module that is linked, with its version, its licences and the modules that it needs, and Go's
// standard library: see package linked.
//
//	sbom -version VERSION FILE... >FILE.cdx.json
//
// The same files give the same bytes. The time in it is SOURCE_DATE_EPOCH of the environment.
package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/puntdns/puntdns/deploy/linked"
)

// homepage is where the project is.
const homepage = "https://github.com/puntdns/puntdns"

func main() {
	version := flag.String("version", "", "of the programs")
	flag.Parse()
	if err := run(os.Stdout, *version, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, version string, files []string) error {
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w; expected seconds", err)
	}
	if version == "" || len(files) == 0 {
		return errors.New("expected -version VERSION FILE")
	}
	d, err := describe(version, time.Unix(epoch, 0), files)
	if err != nil {
		return err
	}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(d, cdx.SpecVersion1_6)
}

// describe returns the document of the files.
func describe(version string, at time.Time, files []string) (*cdx.BOM, error) {
	authors := &cdx.OrganizationalEntity{Name: "The puntdns authors", URL: &[]string{homepage}}
	product := &cdx.Component{
		BOMRef: "puntdns", Type: cdx.ComponentTypeApplication, Name: "puntdns", Version: version, Supplier: authors,
		Licenses:           licences([]string{"Apache-2.0"}),
		PackageURL:         "pkg:golang/github.com/puntdns/puntdns@" + version,
		ExternalReferences: &[]cdx.ExternalReference{{Type: cdx.ERTypeVCS, URL: homepage}},
	}
	d := cdx.NewBOM()
	d.Metadata = &cdx.Metadata{
		Timestamp: at.UTC().Format(time.RFC3339), Component: product, Supplier: authors, Manufacturer: authors,
		Tools: &cdx.ToolsChoice{Components: &[]cdx.Component{{
			Type: cdx.ComponentTypeApplication, Name: "deploy/sbom of puntdns", Version: version,
		}}},
	}
	var components []cdx.Component
	modules := map[string]*module{}
	needs := map[string][]string{}
	for _, file := range files {
		c, own, err := shipped(file, version)
		if err != nil {
			return nil, err
		}
		if _, ok := needs[c.BOMRef]; ok {
			return nil, fmt.Errorf("%s: expected one file of that name", file)
		}
		components = append(components, *c)
		needs[product.BOMRef] = append(needs[product.BOMRef], c.BOMRef)
		needs[c.BOMRef] = nil
		for _, m := range own {
			needs[c.BOMRef] = append(needs[c.BOMRef], m.direct...)
			if m.Version != "" { // the module of the program is the program
				modules[m.ref()] = m
			}
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		components = append(components, modules[ref].component())
		needs[ref] = modules[ref].needs
	}
	d.Components = &components
	d.Dependencies = dependencies(needs)
	// Nothing is missing in it: the linker has recorded all that it has linked.
	d.Compositions = &[]cdx.Composition{{Aggregate: cdx.CompositionAggregateComplete, Dependencies: references(needs)}}
	return d, number(d)
}

// shipped returns a file as a component, and the modules in it if it is a program of Go.
func shipped(file, version string) (*cdx.Component, []*module, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	name := filepath.Base(file)
	c := &cdx.Component{BOMRef: "file:" + name, Type: cdx.ComponentTypeFile, Name: name, Hashes: sha256Of(sha256.Sum256(content))}
	all, err := linked.Read(file)
	switch {
	case errors.Is(err, linked.ErrNoProgram):
		return c, nil, nil
	case err != nil:
		return nil, nil, err
	}
	c.Type, c.Version, c.Licenses = cdx.ComponentTypeApplication, version, licences(all[0].Licences())
	return c, modulesOf(all), nil
}

// module is a module in the document.
type module struct {
	*linked.Module
	// needs are the references of the modules that it needs, and of the standard library. direct are
	// those that a program needs by itself; only the program's own module has some.
	needs, direct []string
}

// modulesOf returns the modules of a program, its own first.
func modulesOf(all []*linked.Module) (of []*module) {
	refs := map[string]string{}
	for _, m := range all {
		refs[m.Path] = (&module{Module: m}).ref()
	}
	for i, m := range all {
		own := &module{Module: m}
		for _, path := range m.Needs {
			own.needs = append(own.needs, refs[path])
		}
		if m.Path != linked.Std {
			own.needs = append(own.needs, refs[linked.Std])
		}
		if i == 0 {
			own.direct = own.needs
		}
		of = append(of, own)
	}
	return of
}

// ref is the package URL of the module (https://github.com/package-url/purl-spec), which other
// components refer to it by.
func (m *module) ref() string { return "pkg:golang/" + m.Path + "@" + m.Version }

func (m *module) component() cdx.Component {
	c := cdx.Component{
		BOMRef: m.ref(), Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: m.ref(), Licenses: licences(m.Licences()),
	}
	// A sum of go.sum is that of a list of files and their sums, and no SHA-256 of a file. It is
	// what other tools show too.
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == sha256.Size {
		c.Hashes = sha256Of([sha256.Size]byte(sum))
	}
	return c
}

func sha256Of(sum [sha256.Size]byte) *[]cdx.Hash {
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
}

// licences says under which licences a component is: all of them.
func licences(ids []string) *cdx.Licenses {
	if len(ids) == 1 {
		return &cdx.Licenses{{License: &cdx.License{ID: ids[0]}}}
	}
	return &cdx.Licenses{{Expression: strings.Join(ids, " AND ")}}
}

func dependencies(needs map[string][]string) *[]cdx.Dependency {
	var all []cdx.Dependency
	for _, ref := range slices.Sorted(maps.Keys(needs)) {
		on := slices.Compact(slices.Sorted(slices.Values(needs[ref])))
		all = append(all, cdx.Dependency{Ref: ref, Dependencies: &on})
	}
	return &all
}

func references(needs map[string][]string) *[]cdx.BOMReference {
	var all []cdx.BOMReference
	for _, ref := range slices.Sorted(maps.Keys(needs)) {
		all = append(all, cdx.BOMReference(ref))
	}
	return &all
}

// number gives the document a serial number, a UUID (RFC 9562, version 8) that is made from what
// is in it.
func number(d *cdx.BOM) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	u := sha256.Sum256(text)
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	d.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
	return nil
}
