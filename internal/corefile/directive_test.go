// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"

	"github.com/puntdns/puntdns/internal/endpoint"
)

// read reads a directive punt with the properties a, b and r, which is repeatable, and returns the calls of
// their parsers. The word "bad" is refused.
func read(text string) (d *Directive, calls []string, err error) {
	parser := func(name string) Parser {
		return func(words []string) error {
			calls = append(calls, fmt.Sprint(name, words))
			if slices.Contains(words, "bad") {
				return errors.New(`"bad": expected something good`)
			}
			return nil
		}
	}
	d, err = Read(caddy.NewTestController("dns", text), parser("punt"), map[string]Parser{"b": parser("b"), "a": parser("a"), "r": parser("r"), "repeat": parser("repeat")}, "r")
	return d, calls, err
}

func TestRead(t *testing.T) {
	tests := []struct{ name, text, want, wantErr string }{
		{"alone", "punt", "[punt[]]", ""},
		{"with words", "punt x y", "[punt[x y]]", ""},
		{"an empty block", "punt {\n}", "[punt[]]", ""},
		{"properties in the order of the file", "punt x {\n b 1 2\n a\n}", "[punt[x] b[1 2] a[]]", ""},
		{"a wrong word", "punt bad", "", `Testfile:1 - Error during parsing: "bad": expected something good`},
		{"a wrong word of a property", "punt {\n a 1\n b bad\n}", "", `Testfile:3 - Error during parsing: b: "bad": expected something good`},
		{"an unknown property", "punt {\n c 1\n}", "", `Testfile:2 - Error during parsing: unknown property "c", expected one of [a b r repeat]`},
		{"a block that ends in the line of a property", "punt {\n a 1 }", "", `Testfile:2 - Error during parsing: a: expected } on a line of its own`},
		{"a property that is misspelt", "punt {\n repaet 1\n}", "", `unknown property "repaet", expected one of [a b r repeat]; did you mean repeat?`},
		{"a repeatable property", "punt {\n r 1\n a\n r 2\n}", "[punt[] r[1] a[] r[2]]", ""},
		{"a property twice", "punt {\n a 1\n a 1\n}", "", `Testfile:3 - Error during parsing: property "a" is given twice, expected once`},
		{"the directive twice", "punt {\n a 1\n}\npunt", "", `Testfile:4 - Error during parsing: punt is given twice in one server block, expected once`},
		{"a block on the next line", "punt x\n{\n a 1\n}", "", `expected the { at the end of the line before`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, calls, err := read(tt.text)
			switch {
			case tt.wantErr == "" && (err != nil || fmt.Sprint(calls) != tt.want):
				t.Errorf("%v, %v, want %s", calls, err, tt.want)
			case tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)):
				t.Errorf("%v, want %s", err, tt.wantErr)
			}
		})
	}
	_, err := Read(caddy.NewTestController("dns", "punt {\n a\n}"), nil, nil)
	if want := `unknown property "a", expected none`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = Read(caddy.NewTestController("dns", "punt a"), nil, nil)
	if want := `["a"]: expected nothing after punt`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// readBlocks is read of a directive that also has blocks c.
func readBlocks(text string) (d *Directive, calls []string, err error) {
	properties := map[string]Parser{"a": func(words []string) error {
		calls = append(calls, fmt.Sprint("a", words))
		return nil
	}}
	d, err = ReadBlocks(caddy.NewTestController("dns", text), nil, properties, map[string]BlockParser{"c": func(words []string, at Position) (map[string]Parser, func() error, error) {
		if slices.Contains(words, "bad") {
			return nil, nil, errors.New(`"bad": expected something good`)
		}
		calls = append(calls, fmt.Sprint("c", words, at.Line))
		within := 0
		parse := func(words []string) error {
			within++
			if slices.Contains(words, "bad") {
				return errors.New(`"bad": expected something good`)
			}
			calls = append(calls, fmt.Sprint("within", words))
			return nil
		}
		return map[string]Parser{"a": parse, "x": parse}, func() error {
			if within == 0 {
				return errors.New("expected a or x")
			}
			calls = append(calls, "end")
			return nil
		}, nil
	}})
	return d, calls, err
}

// Blocks are read in the order of the file, any number of them, and a property in a block is no property of
// the directive.
func TestReadBlocks(t *testing.T) {
	tests := []struct{ name, text, want, wantErr string }{
		{"none", "punt {\n a 1\n}", "[a[1]]", ""},
		{"one", "punt {\n c u v {\n  a 1\n }\n}", "[c[u v] 2 within[1] end]", ""},
		{"several among properties", "punt {\n c {\n  x\n  a 1 2\n }\n a 3\n c w {\n  x 4\n }\n}", "[c[] 2 within[] within[1 2] end a[3] c[w] 7 within[4] end]", ""},
		{"a wrong word", "punt {\n a 1\n c bad {\n  a 1\n }\n}", "", `Testfile:3 - Error during parsing: c: "bad": expected something good`},
		{"a wrong word within", "punt {\n c u {\n  x 1\n  a bad\n }\n}", "", `Testfile:4 - Error during parsing: c u: a: "bad": expected something good`},
		{"an unknown property within", "punt {\n c u {\n  b\n }\n}", "", `Testfile:3 - Error during parsing: c u: unknown property "b", expected one of [a x]`},
		{"a property twice within", "punt {\n c u {\n  a 1\n  a 1\n }\n}", "", `Testfile:4 - Error during parsing: c u: property "a" is given twice, expected once`},
		{"a block within", "punt {\n c u {\n  {\n  }\n }\n}", "", `Testfile:3 - Error during parsing: c u: unknown property "{", expected one of [a x]`},
		{"an unknown property beside", "punt {\n b\n}", "", `Testfile:2 - Error during parsing: unknown property "b", expected one of [a c]`},
		{"no block", "punt {\n c u\n a 1\n}", "", `Testfile:2 - Error during parsing: c u: expected { at the end of the line, and one of [a x] in the block`},
		{"a block on the next line", "punt {\n c u\n {\n  a 1\n }\n}", "", `Testfile:2 - Error during parsing: c u: expected { at the end of the line`},
		{"an empty block", "punt {\n a 1\n c u {\n }\n}", "", `Testfile:3 - Error during parsing: c u: expected a or x`},
		{"no end", "punt {\n c u {\n  a 1\n", "", `Testfile:3 - Error during parsing: c u: expected } at the end of the block`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, calls, err := readBlocks(tt.text)
			switch {
			case tt.wantErr == "" && (err != nil || fmt.Sprint(calls) != tt.want):
				t.Errorf("%v, %v, want %s", calls, err, tt.want)
			case tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)):
				t.Errorf("%v, want %s", err, tt.wantErr)
			}
		})
	}
}

// Two directives differ if their blocks differ, and errors have the line of the first block.
func TestDifferentBlocks(t *testing.T) {
	block := "punt {\n c u {\n  a 1\n }\n c v {\n  x 1\n }\n}"
	a, _, err := readBlocks(block)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		block: "[]", "punt": "[c]",
		strings.Replace(block, "a 1", "a 2", 1): "[c]",
		strings.Replace(block, "a 1", "x 1", 1): "[c]",
		strings.Replace(block, " v", " w", 1):   "[c]",
	} {
		b, _, err := readBlocks(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(Differences(a, b)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if err := a.Errorf("c", "wrong"); err.Error() != "Testfile:2 - punt: c: wrong" {
		t.Error(err)
	}
}

func TestDifferences(t *testing.T) {
	tests := []struct{ a, b, want string }{
		{"punt x {\n a 1\n}", "punt x {\n a 1\n}", "[]"},
		{"punt x {\n a 1\n b\n}", "punt y {\n b\n a 1\n}", "[]"},
		{"punt x {\n a 1\n b 1\n}", "punt x {\n b 2\n a 1 2\n}", "[a b]"},
		{"punt x {\n a 1\n}", "punt x {\n b 1\n}", "[a b]"},
		{"punt x", "punt x {\n b 1\n}", "[b]"},
	}
	for _, tt := range tests {
		a, _, err := read(tt.a)
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := read(tt.b)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(Differences(a, b)); got != tt.want {
			t.Errorf("%q and %q: %s, want %s", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestErrorPosition(t *testing.T) {
	d, _, err := read("\npunt br-int {\n a 1\n}")
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("cause")
	err = d.Errorf("a", "%q: %w", "1", cause)
	if want := `Testfile:3 - punt br-int: a: "1": cause`; err.Error() != want || !errors.Is(err, cause) {
		t.Errorf("%v, want %s", err, want)
	}
	if got := fmt.Sprint(d.PropertyWords("a"), d.PropertyWords("b")); got != "[1] []" {
		t.Errorf("words of the properties: %s", got)
	}
	if err := d.Errorf("b", "missing"); err.Error() != "Testfile:2 - punt br-int: b: missing" {
		t.Errorf("of a property that is not given: %v", err)
	}
}

func TestCheckTLS(t *testing.T) {
	d, _, err := read("punt {\n a ssl:192.0.2.1:6640\n}")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := endpoint.Parse("tcp:192.0.2.1:6640")
	if err != nil {
		t.Fatal(err)
	}
	ssl, err := endpoint.Parse("ssl:192.0.2.1:6640")
	if err != nil {
		t.Fatal(err)
	}
	none := endpoint.TLSFiles{}
	missing := endpoint.TLSFiles{Cert: "/no/cert", Key: "/no/key", CA: "/no/ca"}
	tests := []struct {
		name  string
		files endpoint.TLSFiles
		peer  endpoint.Endpoint
		want  string
	}{
		{"neither", none, plain, ""},
		{"no files", none, ssl, `Testfile:2 - punt: a: "ssl:192.0.2.1:6640": expected the property tls beside it`},
		{"files that are not there", missing, plain, "/no/cert"},
		{"a name and no files", endpoint.TLSFiles{ServerName: "db.example"}, plain, `Testfile:1 - punt: tls_servername: "db.example": expected the property tls beside it`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := d.CheckTLS(tt.files, Peer{"a", tt.peer})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestTLSParsers(t *testing.T) {
	parse := func(property string, words ...string) (f endpoint.TLSFiles, err error) {
		f = endpoint.TLSFiles{CA: "before", ServerName: "before"}
		err = TLSParsers(&f)[property](words)
		return f, err
	}
	if f, err := parse("tls", "c", "k", "a"); err != nil || f != (endpoint.TLSFiles{Cert: "c", Key: "k", CA: "a", ServerName: "before"}) {
		t.Errorf("tls: %+v, %v", f, err)
	}
	if _, err := parse("tls", "cert"); err == nil || err.Error() != "expected CERT KEY CA, got 1 words" {
		t.Errorf("one word: %v", err)
	}
	for name, want := range map[string]string{"db.example": "db.example", "DB-1.example.": "DB-1.example", "_a.b": "_a.b"} {
		if f, err := parse("tls_servername", name); err != nil || f != (endpoint.TLSFiles{CA: "before", ServerName: want}) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	for _, words := range [][]string{nil, {""}, {"a", "b"}, {"."}, {"a..b"}, {"10.0.0.1"}, {"fd00::1"}, {"*.example"}, {"-a"}, {"ä"}, {strings.Repeat("a", 64)}} {
		if _, err := parse("tls_servername", words...); err == nil || !strings.HasSuffix(err.Error(), ": expected the host name in the certificate of the server") {
			t.Errorf("%q: %v", words, err)
		}
	}
}
