// SPDX-License-Identifier: Apache-2.0

// Command mutations breaks the product in the ways of its list, one at a time, and reports which test
// catches each. A build overlay takes the place of the file that is mutated, so no file of the tree
// changes. It is run in the root of the tree.
//
//	go run ./test/mutations [-only REGEXP] [-dependants] [-v]
//
// A mutation meets the tests of its package, with -dependants those of the packages that import it,
// and then its system tests, which run a puntdns built with it. A test that fails without the
// mutation too is an error.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	only := flag.String("only", "", "a regular expression of the names of mutations to run")
	dependants := flag.Bool("dependants", false, "run the tests of the packages that import the mutated one too")
	verbose := flag.Bool("v", false, "print the output of the test that catches a mutation")
	flag.Parse()
	chosen, err := regexp.Compile(*only)
	if err != nil {
		fail(err)
	}
	folder, err := os.MkdirTemp("", "mutations-")
	if err != nil {
		fail(err)
	}
	r := &runner{folder: folder, dependants: *dependants, verbose: *verbose}
	count := map[string]int{}
	fmt.Printf("%-28s %-44s %s\n", "mutation", "caught by", "listed as caught by")
	for i := range list {
		m := &list[i]
		if !chosen.MatchString(m.name) {
			continue
		}
		by, err := r.run(m)
		outcome := "caught"
		switch {
		case err != nil:
			outcome, by = "errors", "ERROR: "+err.Error()
		case by == "" && m.survives != "":
			outcome, by = "survived as listed", "survived: "+m.survives
		case by == "":
			outcome, by = "SURVIVED", "SURVIVED"
		}
		count[outcome]++
		fmt.Printf("%-28s %-44s %s\n", m.name, by, m.caught)
	}
	fmt.Printf("%d caught, %d SURVIVED, %d survived as listed, %d errors\n",
		count["caught"], count["SURVIVED"], count["survived as listed"], count["errors"])
	_ = os.RemoveAll(folder)
	if count["SURVIVED"]+count["errors"] > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mutations:", err)
	os.Exit(1)
}

type runner struct {
	folder              string
	dependants, verbose bool
}

// run returns what catches a mutation, empty if nothing does.
func (r *runner) run(m *mutation) (by string, err error) {
	overlay, err := r.mutate(m)
	if err != nil {
		return "", err
	}
	own := "./" + path.Dir(m.file)
	first := cmp.Or(m.pkg, own)
	packages := []string{first}
	if r.dependants {
		more, err := importersOf(own)
		if err != nil {
			return "", err
		}
		for _, p := range append([]string{own}, more...) {
			if p != first {
				packages = append(packages, p)
			}
		}
	}
	for _, p := range packages {
		tests := ""
		if p == first {
			tests = m.tests
		}
		mutant := suite{pkg: p, flags: []string{"-overlay", overlay}}
		if by, err := r.catch(mutant, suite{pkg: p}, tests); by != "" || err != nil {
			return by, err
		}
	}
	if m.system == "" {
		return "", nil
	}
	return r.catchBySystem(overlay, m.system)
}

// mutate writes the mutated file and the build overlay, and returns the path of the overlay.
func (r *runner) mutate(m *mutation) (overlay string, err error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", fmt.Errorf("%w%s", err, foundIn(m.find))
	}
	switch n := strings.Count(string(text), m.find); {
	case n == 0:
		return "", fmt.Errorf("text not found in %s: %q%s", m.file, m.find, foundIn(m.find))
	case n > 1:
		return "", fmt.Errorf("text found %d times in %s, expected once: %q", n, m.file, m.find)
	}
	mutated, overlay := filepath.Join(r.folder, "mutated.go"), filepath.Join(r.folder, "overlay.json")
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(
		os.WriteFile(mutated, []byte(strings.Replace(string(text), m.find, m.put, 1)), 0o600),
		os.WriteFile(overlay, replace, 0o600))
}

// foundIn says which files of the product have a text, which may have moved.
func foundIn(text string) string {
	out, _ := exec.Command("git", "grep", "-lF", "-e", text, "--", "*.go", ":!*_test.go", ":!test").Output()
	if len(out) == 0 {
		return ""
	}
	return "; it is in " + strings.Join(strings.Fields(string(out)), ", ")
}

// importersOf returns the packages that import a package, or whose tests do, without those of test.
func importersOf(pkg string) (all []string, err error) {
	const format = "{{.ImportPath}}: {{.Imports}} {{.TestImports}} {{.XTestImports}}"
	out, err := exec.Command("go", "list", "-f", format, "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	const module = "github.com/puntdns/puntdns/"
	name := module + strings.TrimPrefix(pkg, "./")
	for line := range strings.Lines(string(out)) {
		importer, imports, _ := strings.Cut(line, ": ")
		words := strings.FieldsFunc(imports, func(c rune) bool { return strings.ContainsRune("[] \n", c) })
		short := "." + strings.TrimPrefix(importer, strings.TrimSuffix(module, "/"))
		if importer != name && slices.Contains(words, name) && short != "./test" && !strings.HasPrefix(short, "./test/") {
			all = append(all, short)
		}
	}
	return all, nil
}

// catchBySystem is catch by the tests of package test, which run a program built with the overlay.
// Those fail on a busy machine now and then, so a test catches a mutation by failing twice.
func (r *runner) catchBySystem(overlay, tests string) (by string, err error) {
	mutant, product := filepath.Join(r.folder, "puntdns"), filepath.Join(r.folder, "product", "puntdns")
	for program, flags := range map[string][]string{mutant: {"-overlay", overlay}, product: nil} {
		args := slices.Concat([]string{"build", "-trimpath"}, flags, []string{"-o", program, "./cmd/puntdns"})
		if out, err := command("go", args...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("does not compile:\n%s", out)
		}
	}
	broken := suite{pkg: "./test", env: "PUNTDNS=" + mutant}
	first, err := r.test(broken, tests)
	if first == "" || err != nil {
		return "", err
	}
	if !strings.Contains(tests, "/") {
		tests = "^" + first + "$"
	}
	return r.catch(broken, suite{pkg: "./test", env: "PUNTDNS=" + product}, tests)
}

// catch returns the test that catches a mutation: it fails with the mutant and not with the product.
func (r *runner) catch(mutant, product suite, tests string) (by string, err error) {
	failed, err := r.test(mutant, tests)
	if failed == "" || err != nil {
		return "", err
	}
	if (strings.HasPrefix(failed, "Test") || strings.HasPrefix(failed, "Fuzz")) && !strings.Contains(tests, "/") {
		tests = "^" + failed + "$"
	}
	control, err := r.test(product, tests)
	if err != nil {
		return "", err
	}
	if control == failed { // one test alone may leave goroutines, which others would outlast
		return "", fmt.Errorf("%s of %s fails without the mutation too", control, mutant.pkg)
	}
	return strings.TrimPrefix(mutant.pkg, "./") + " " + failed, nil
}

// suite is how tests of a package are run.
type suite struct {
	pkg   string
	flags []string // of go test
	env   string
}

var failure = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// test runs tests, and returns the first that fails, empty if none does. Without a name it is what
// ended the process.
func (r *runner) test(s suite, tests string) (failed string, err error) {
	args := []string{"test", "-trimpath", "-vet=off", "-count", "1", "-failfast", "-timeout", "10m", "-parallel", "2", "-run", tests}
	cmd := command("go", slices.Concat(args, s.flags, []string{s.pkg})...)
	if s.env != "" {
		cmd.Env = append(cmd.Env, s.env)
	}
	output, err := cmd.CombinedOutput()
	out := string(output)
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(out, "no tests to run"):
		return "", fmt.Errorf("%s has no test %q", s.pkg, tests)
	case err == nil:
		return "", nil
	case !errors.As(err, &exit):
		return "", err
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return "", fmt.Errorf("does not compile:\n%s", out)
	}
	if r.verbose {
		fmt.Print(out)
	}
	if m := failure.FindStringSubmatch(out); m != nil {
		return m[1], nil
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.HasPrefix(line, "goleak:") {
			return strings.TrimSpace(line), nil
		}
	}
	return "", fmt.Errorf("%s: %w without a test that fails:\n%s", s.pkg, exit, out)
}

// command has what make test has. With CI set a test that can't run fails, and is no test that passes.
func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "CI=true")
	return cmd
}
