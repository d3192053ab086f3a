// SPDX-License-Identifier: Apache-2.0

// Command generate writes the plugins of a plugin.cfg into a Go file, with their order:
//
//	//go:generate go run github.com/puntdns/puntdns/plugins/generate
//
// By default that is zplugins.go beside plugin.cfg, in package main.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/puntdns/puntdns/internal/plugincfg"
)

func main() {
	from := flag.String("from", "plugin.cfg", "the `file` to read")
	to := flag.String("to", "zplugins.go", "the `file` to write")
	pkg := flag.String("package", "main", "the `name` of its package")
	flag.Parse()
	if err := generate(*from, *to, *pkg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(from, to, pkg string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	source, err := plugincfg.Generate(pkg, from, text)
	if err != nil {
		return err
	}
	all, err := plugincfg.Parse(from, text)
	if err != nil {
		return err
	}
	for _, name := range plugincfg.BehindForward(plugincfg.Names(all)) {
		fmt.Fprintf(os.Stderr, "%s: warning: %s is behind forward, so it gets no query in a block with `forward .`; move its line before cache, or between cache and forward to have its answers cached\n", from, name)
	}
	return os.WriteFile(to, source, 0o644)
}
