// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// calls has the functions of some packages, and the names of what each mentions: what it
// calls is among that.
type calls map[string]map[string]bool

// add reads a package. A method is known as Type.method, that of another package than punt
// as package.Type.method.
func (c calls) add(t *testing.T, dir, prefix string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, %v", dir, err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, b, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				mentions := map[string]bool{}
				ast.Inspect(d.Body, func(n ast.Node) bool {
					if s, ok := n.(*ast.SelectorExpr); ok {
						mentions[s.Sel.Name] = true
					}
					return true
				})
				c[prefix+functionName(d)] = mentions
			}
		}
	}
}

// functionName is Type.method, or function.
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	of := d.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	return of.(*ast.Ident).Name + "." + d.Name.Name
}

// The way of a query is told by the names of the functions, and in the order that they call
// each other in.
func TestDocumentedWay(t *testing.T) {
	code := calls{}
	code.add(t, "ofpunt/punt", "")
	code.add(t, "ofpunt", "ofpunt.")
	code.add(t, "ofpunt/tcp", "tcp.")
	_, section, _ := strings.Cut(readDoc(t, "docs/design.md"), "\n### In the process\n")
	section, _, _ = strings.Cut(section, "\n## ")
	line := regexp.MustCompile(`^( *)(… )?((?:\w+\.)+\w+)(?: {2,}.*)?$`)
	type caller struct {
		indent int
		name   string
	}
	var above []caller
	within, names := false, 0
	for l := range strings.Lines(section) {
		l = strings.TrimSuffix(l, "\n")
		if strings.HasPrefix(l, "```") {
			within, above = !within, nil
			continue
		}
		if !within {
			continue
		}
		m := line.FindStringSubmatch(l)
		if m == nil {
			t.Errorf("%q names no function", l)
			continue
		}
		indent, name := len(m[1]), m[3]
		for len(above) > 0 && above[len(above)-1].indent >= indent {
			above = above[:len(above)-1]
		}
		names++
		if code[name] == nil {
			t.Errorf("there is no %s", name)
		}
		method := name[strings.LastIndexByte(name, '.')+1:]
		if m[2] == "" && len(above) > 0 {
			if by := above[len(above)-1].name; !code[by][method] {
				t.Errorf("%s does not call %s", by, name)
			}
		}
		above = append(above, caller{indent, name})
	}
	if names < 40 {
		t.Errorf("%d functions are named", names)
	}
}
