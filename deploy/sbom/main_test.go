// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// puntctl builds a program of few modules.
func puntctl(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "puntctl")
	cmd := exec.Command("go", "build", "-o", file, "./cmd/puntctl")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return file
}

// schema is that of CycloneDX, of the library's module.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	compiler.AssertFormat()
	for url, name := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		f, err := os.Open(filepath.Join(strings.TrimSpace(string(out)), "schema", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		text, err := jsonschema.UnmarshalJSON(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource("http://cyclonedx.org/schema/"+url, text); err != nil {
			t.Fatal(err)
		}
	}
	s, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchema validates what is written.
func TestSchema(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	var out bytes.Buffer
	if err := run(&out, "1.2.3", []string{puntctl(t), "main.go"}); err != nil {
		t.Fatal(err)
	}
	written := out.String()
	for _, tt := range []struct {
		name, old, new string
		wrong          bool
	}{
		{"as it is", "", "", false},
		{"a licence that SPDX does not have", `"id": "Apache-2.0"`, `"id": "Apache-2.0-ish"`, true},
		{"a type that there is not", `"type": "library"`, `"type": "module"`, true},
	} {
		text := strings.Replace(written, tt.old, tt.new, 1)
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema(t).Validate(document); (err != nil) != tt.wrong {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestDescribe describes a program, and a file that is none.
func TestDescribe(t *testing.T) {
	program := puntctl(t)
	file := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000, 0)
	d, err := describe("1.2.3", at, []string{program, file})
	if err != nil {
		t.Fatal(err)
	}
	if d.Version != 1 || d.Metadata.Timestamp != "2023-11-14T22:13:20Z" || d.Metadata.Supplier.Name == "" || d.Metadata.Component.Version != "1.2.3" {
		t.Errorf("the head of the document: %+v", d.Metadata)
	}
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(d.SerialNumber) {
		t.Errorf("the serial number: %s", d.SerialNumber)
	}
	byName := map[string]cdx.Component{}
	refs := map[string]string{d.Metadata.Component.BOMRef: d.Metadata.Component.Name}
	for _, c := range *d.Components {
		byName[c.Name] = c
		if _, ok := refs[c.BOMRef]; ok {
			t.Errorf("two components are %s", c.BOMRef)
		}
		refs[c.BOMRef] = c.Name
	}
	if c := byName["puntctl"]; c.Type != cdx.ComponentTypeApplication || c.Version != "1.2.3" || len(*c.Hashes) != 1 {
		t.Errorf("the program: %+v", c)
	}
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if c := byName["roots.pem"]; c.Type != cdx.ComponentTypeFile || c.Version != "" || (*c.Hashes)[0].Value != empty {
		t.Errorf("the file: %+v", c)
	}
	version := strings.TrimPrefix(strings.Fields(runtime.Version())[0], "go")
	for name, want := range map[string]struct{ purl, licence string }{
		"std":                     {"pkg:golang/std@" + version, "BSD-3-Clause"},
		"github.com/spf13/cobra":  {"pkg:golang/github.com/spf13/cobra@v", "Apache-2.0"},
		"go.yaml.in/yaml/v3":      {"pkg:golang/go.yaml.in/yaml/v3@v3.", "Apache-2.0 AND MIT"},
		"github.com/miekg/dns":    {},
		"github.com/puntdns/punt": {},
	} {
		c, ok := byName[name]
		if want.purl == "" {
			if ok {
				t.Errorf("it has %s, which is not linked", name)
			}
			continue
		}
		licence := ""
		if c.Licenses != nil {
			if licence = (*c.Licenses)[0].Expression; licence == "" {
				licence = (*c.Licenses)[0].License.ID
			}
		}
		if !strings.HasPrefix(c.PackageURL, want.purl) || licence != want.licence {
			t.Errorf("%s: %+v, %s; want %+v", name, c, licence, want)
		}
	}
	needs := map[string][]string{}
	for _, dep := range *d.Dependencies {
		for _, ref := range *dep.Dependencies {
			if refs[ref] == "" {
				t.Errorf("%s needs %s, which is no component", dep.Ref, ref)
			}
			needs[refs[dep.Ref]] = append(needs[refs[dep.Ref]], refs[ref])
		}
	}
	for name, want := range map[string][]string{
		"puntdns":                {"puntctl", "roots.pem"},
		"puntctl":                {"github.com/rivo/uniseg", "github.com/spf13/cobra", "github.com/spf13/pflag", "go.yaml.in/yaml/v3", "std"},
		"github.com/spf13/cobra": {"github.com/spf13/pflag", "std"},
		"std":                    nil,
	} {
		// golang.org/x/sys may come to it.
		got := slices.DeleteFunc(slices.Clone(needs[name]), func(n string) bool { return strings.HasPrefix(n, "golang.org/x/") })
		if !slices.Equal(got, want) {
			t.Errorf("%s needs %q, want %q", name, got, want)
		}
	}
}

// TestDescribeAgain wants the same document for the same files, and another one for others.
func TestDescribeAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "roots.pem")
	write := func(text string) string {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
		var out bytes.Buffer
		if err := run(&out, "1.2.3", []string{file}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	one, two, other := write("a"), write("a"), write("b")
	if one != two {
		t.Error("the same file gave another document")
	}
	serial := regexp.MustCompile(`urn:uuid:\S+`)
	if serial.FindString(one) == serial.FindString(other) {
		t.Error("another file, and the same serial number")
	}
}
