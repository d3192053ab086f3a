// SPDX-License-Identifier: Apache-2.0

// Command sbom lists what is in Go programs, and in other files that are shipped with them: a bill
// of materials in CycloneDX 1.6, in JSON. It has what the Go linker has recorded in the programs
// themselves (debug/buildinfo), so it can't differ from them: each module with its version, and Go.
// Licences are not recorded there.
//
//	sbom -version VERSION FILE... >FILE.cdx.json
//
// The same files give the same bytes. The time in it is SOURCE_DATE_EPOCH of the environment.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The parts of CycloneDX 1.6 that it writes (https://cyclonedx.org/docs/1.6/json/).
type (
	document struct {
		Format       string       `json:"bomFormat"`   // CycloneDX
		Spec         string       `json:"specVersion"` // 1.6
		Serial       string       `json:"serialNumber,omitempty"`
		Version      int          `json:"version"` // of the document, from 1 on
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"` // RFC 3339
		Component component `json:"component"` // what the document is about
	}
	component struct {
		Ref     string `json:"bom-ref"`
		Type    string `json:"type"` // application, library or file
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
		PURL    string `json:"purl,omitempty"`
		Hashes  []hash `json:"hashes,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"` // in hex
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"` // sorted
	}
)

func main() {
	version := flag.String("version", "", "of the programs")
	flag.Parse()
	if err := run(*version, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(version string, files []string) error {
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
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(d)
}

// describe returns the document of the files.
func describe(version string, at time.Time, files []string) (*document, error) {
	product := component{Ref: "puntdns", Type: "application", Name: "puntdns", Version: version}
	d := &document{
		Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: metadata{Timestamp: at.UTC().Format(time.RFC3339), Component: product},
	}
	modules := map[string]component{}
	whole := dependency{Ref: product.Ref}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(content)
		c := component{
			Type: "file", Name: filepath.Base(file),
			Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}},
		}
		c.Ref = "file:" + c.Name
		whole.DependsOn = append(whole.DependsOn, c.Ref)
		needs := dependency{Ref: c.Ref, DependsOn: []string{}}
		if info, err := buildinfo.ReadFile(file); err == nil { // else it is no program of Go
			c.Type, c.Version = "application", version
			for _, m := range modulesOf(info) {
				modules[m.Ref] = m
				needs.DependsOn = append(needs.DependsOn, m.Ref)
			}
			slices.Sort(needs.DependsOn)
		}
		d.Components = append(d.Components, c)
		d.Dependencies = append(d.Dependencies, needs)
	}
	slices.Sort(whole.DependsOn)
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		d.Components = append(d.Components, modules[ref])
		d.Dependencies = append(d.Dependencies, dependency{ref, []string{}})
	}
	d.Dependencies = append(d.Dependencies, whole)
	return d, d.number()
}

// modulesOf returns the modules in a program, the standard library included.
func modulesOf(info *debug.BuildInfo) []component {
	version, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ") // experiments follow
	std := component{Type: "library", Name: "std", Version: version, PURL: "pkg:golang/std@" + version}
	std.Ref = std.PURL
	all := []component{std}
	for _, m := range info.Deps {
		m = cmp.Or(m.Replace, m)
		c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version}
		c.Ref = c.PURL
		// A sum of go.sum is that of a list of files and their sums, and no SHA-256 of a file. It is
		// what other tools show too.
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == sha256.Size {
			c.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum)}}
		}
		all = append(all, c)
	}
	return all
}

// number gives the document a serial number, a UUID (RFC 9562, version 8) that is made from what
// is in it.
func (d *document) number() error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	u := sha256.Sum256(text)
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	d.Serial = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
	return nil
}
