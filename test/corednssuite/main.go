// SPDX-License-Identifier: Apache-2.0

// The program corednssuite runs CoreDNS's own system tests, the folder test of its module, twice: as they are, and with
// the plugins of puntdns in CoreDNS, in the order of puntdns. It prints what differs. It fails if a test fails with the
// plugins of puntdns that passes without them, unless accepted has it, and if a test of accepted passes.
//
// Run it in the root of the repository: go run ./test/corednssuite. It takes 15 minutes.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/format"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coredns/coredns/core/dnsserver"

	"github.com/puntdns/puntdns/plugins"
)

// accepted has the tests that fail with the plugins of puntdns, and why.
var accepted = map[string]string{}

const (
	coredns = "github.com/coredns/coredns"
	puntdns = "github.com/puntdns/puntdns"
)

func main() {
	run := flag.String("run", "", "the tests to run, a regular expression; all without it")
	flag.Parse()
	if err := compare(os.Stdout, *run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// compare runs the tests both ways, and writes what differs.
func compare(out io.Writer, run string) error {
	folder, err := os.MkdirTemp("", "coredns-suite-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := copyModule(folder); err != nil {
		return err
	}
	stock, err := test(folder, run)
	if err != nil {
		return err
	}
	if err := usePlugins(folder); err != nil {
		return err
	}
	ours, err := test(folder, run)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "stock CoreDNS: %s\nplugins of puntdns: %s\n", summary(stock), summary(ours))
	return differences(out, stock, ours)
}

// differences writes the tests whose results differ, and returns an error for those that are not accepted.
func differences(out io.Writer, stock, ours results) error {
	unexpected := 0
	for _, name := range slices.Sorted(maps.Keys(stock)) {
		reason, ok := accepted[name]
		switch {
		case ok && ours[name] == passed:
			unexpected++
			fmt.Fprintf(out, "%s passes, remove it from accepted (%s)\n", name, reason)
		case stock[name] != passed || ours[name] == passed:
		case ok:
			fmt.Fprintf(out, "%s: accepted: %s\n", name, reason)
		default:
			unexpected++
			fmt.Fprintf(out, "%s: %s with the plugins of puntdns\n%s", name, ours[name], ours[name+outputOf])
		}
	}
	if unexpected > 0 {
		return fmt.Errorf("%d tests differ", unexpected)
	}
	return nil
}

// results are the results of the tests by name: passed, or another one such as fail or skip. The output of a test that
// has not passed is there by its name and outputOf.
type results map[string]string

const (
	passed   = "pass"
	outputOf = " output"
)

func summary(r results) string {
	counts := map[string]int{}
	for name, result := range r {
		if !strings.HasSuffix(name, outputOf) {
			counts[result]++
		}
	}
	var words []string
	for _, result := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s %d", result, counts[result]))
	}
	return strings.Join(words, ", ")
}

// copyModule copies the module of CoreDNS, as go.mod has it, into a folder.
func copyModule(folder string) error {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", coredns).Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	if err := os.CopyFS(folder, os.DirFS(strings.TrimSpace(string(out)))); err != nil {
		return err
	}
	// The files of the module cache are read-only.
	return filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o755)
	})
}

// test runs the tests in a folder. A test that fails is no error.
func test(folder, run string) (results, error) {
	cmd := exec.Command("go", "test", "-mod=mod", "-count=1", "-json", "-run", run, "./test")
	cmd.Dir = folder
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	failure := cmd.Run()
	r := results{}
	output := map[string]string{}
	lines := bufio.NewScanner(&out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct{ Action, Test, Output string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("go test -json: %q: %w", lines.Text(), err)
		}
		name, _, _ := strings.Cut(e.Test, "/") // with the output of its subtests
		switch e.Action {
		case "output":
			output[name] += e.Output
		case passed, "fail", "skip":
			if e.Test != "" && e.Test == name {
				r[name] = e.Action
				if e.Action == "fail" {
					r[name+outputOf] = output[name]
				}
			}
		}
	}
	if len(r) == 0 {
		return nil, fmt.Errorf("no test has run: %w: %s%s", failure, &errs, output[""])
	}
	return r, lines.Err()
}

// usePlugins puts the plugins of puntdns into a copy of CoreDNS, beside the plugins of CoreDNS that puntdns does not
// have. Where both have a plugin of one name, puntdns's own replaces it.
func usePlugins(folder string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	edit := exec.Command("go", "mod", "edit", "-require="+puntdns+"@v0.0.0", "-replace="+puntdns+"="+root)
	edit.Dir = folder
	if out, err := edit.CombinedOutput(); err != nil {
		return fmt.Errorf("go mod edit: %w: %s", err, out)
	}
	directives := fmt.Sprintf("package dnsserver\n\nvar Directives = %#v\n", merged(plugins.Directives, dnsserver.Directives))
	if err := writeGo(filepath.Join(folder, "core/dnsserver/zdirectives.go"), directives); err != nil {
		return err
	}
	path := filepath.Join(folder, "core/plugin/zplugin.go")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	imports := strings.Replace(string(text), "\t_ \""+coredns+"/plugin/ready\"\n", "", 1)
	// A test of CoreDNS wants the imports of others last.
	return writeGo(path, strings.TrimSuffix(strings.TrimSpace(imports), ")")+"\n\t_ \""+puntdns+"/plugins\"\n)\n")
}

func writeGo(path, text string) error {
	formatted, err := format.Source([]byte(text))
	if err != nil {
		return err
	}
	return os.WriteFile(path, formatted, 0o644)
}

// merged returns the directives of ours in their order. Any other directive of stock stands behind the one that
// precedes it in stock.
func merged(ours, stock []string) []string {
	all := slices.Clone(ours)
	for n, name := range stock {
		switch {
		case slices.Contains(all, name):
		case n == 0:
			all = slices.Insert(all, 0, name)
		default:
			all = slices.Insert(all, slices.Index(all, stock[n-1])+1, name)
		}
	}
	return all
}
