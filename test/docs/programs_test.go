// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/puntctl"
	"github.com/puntdns/puntdns/test/lab"
)

// separators end a command in the shell, as far as the pages have them.
var separators = regexp.MustCompile(`&&|\|\||\$\(|[|;\n()<>]`)

// A program that a page names, in a block or in a sentence, knows what it is told there: targets of
// make, commands and flags of puntctl, flags of puntdns, commands of OVN's and Open vSwitch's tools,
// benchmarks of go test.
func TestDocumentedPrograms(t *testing.T) {
	t.Parallel()
	knows := map[string]func(args []string) error{
		"make": makeKnows(t), "puntctl": puntctlKnows, "puntdns": puntdnsKnows(t), "go": goKnows,
		"ovn-nbctl": toolKnows(t, "ovn-nbctl"), "ovn-sbctl": toolKnows(t, "ovn-sbctl"),
		"ovs-vsctl": toolKnows(t, "ovs-vsctl"), "ovs-ofctl": toolKnows(t, "ovs-ofctl"),
	}
	calls := map[string]int{}
	check := func(where, text string) {
		text = strings.ReplaceAll(text, "\\\n", " ")
		for _, command := range separators.Split(text, -1) {
			command, _, _ = strings.Cut(command, " #")
			words := strings.Fields(command)
			for len(words) > 0 && (words[0] == "if" || words[0] == "until" || regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0])) {
				words = words[1:]
			}
			if len(words) < 2 || knows[words[0]] == nil || strings.Contains(words[1], "…") {
				continue
			}
			calls[words[0]]++
			if err := knows[words[0]](words[1:]); err != nil {
				t.Errorf("%s: %s: %v", where, command, err)
			}
		}
	}
	for _, page := range readPages(t) {
		for _, b := range page.Blocks {
			if b.Language == "sh" {
				check(fmt.Sprintf("%s:%d", page.Path, b.Line), b.Text)
			}
		}
		for _, c := range page.Code {
			check(fmt.Sprintf("%s:%d", page.Path, c.Line), c.Text)
		}
	}
	for program := range knows {
		if calls[program] < 3 {
			t.Errorf("%d calls of %s were found", calls[program], program)
		}
	}
}

// makeKnows returns what checks targets of the Makefile.
func makeKnows(t *testing.T) func([]string) error {
	makefile := readFile(t, "Makefile")
	return func(args []string) error {
		for _, target := range args {
			if strings.Contains(target, "=") {
				break // a variable, whose value may have spaces
			}
			if !regexp.MustCompile(`(?m)^(?:[a-z-]+ )*` + regexp.QuoteMeta(target) + `(?: [a-z-]+)*:`).MatchString(makefile) {
				return fmt.Errorf("no target %s", target)
			}
		}
		return nil
	}
}

// puntctlKnows checks the command and its flags.
func puntctlKnows(args []string) error {
	root := puntctl.New("")
	root.InitDefaultCompletionCmd("help")
	at := slices.IndexFunc(args, func(word string) bool {
		return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
	})
	if at < 0 {
		return fmt.Errorf("no command among %q", args)
	}
	command, _, err := root.Find(args[at:])
	if err != nil {
		return err
	}
	for _, word := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case !strings.HasPrefix(word, "-"), name == "help":
		case strings.HasPrefix(word, "--") && command.Flags().Lookup(name) == nil && command.InheritedFlags().Lookup(name) == nil,
			!strings.HasPrefix(word, "--") && command.Flags().ShorthandLookup(name) == nil && command.InheritedFlags().ShorthandLookup(name) == nil:
			return fmt.Errorf("%s has no flag %s", command.Name(), word)
		}
	}
	return nil
}

// puntdnsKnows returns what checks the flags of puntdns.
func puntdnsKnows(t *testing.T) func([]string) error {
	flags := knownFlags(t)
	return func(args []string) error {
		for _, word := range args {
			if strings.HasPrefix(word, "-") && !slices.Contains(flags, word) {
				return fmt.Errorf("no flag %s", word)
			}
		}
		return nil
	}
}

// goKnows checks that benchmarks are there.
func goKnows(args []string) error {
	at := slices.Index(args, "-bench")
	if at < 0 {
		return nil
	}
	folder := root + strings.TrimPrefix(args[len(args)-1], ".")
	pattern := filepath.Join(folder, "*_test.go")
	if up, ok := strings.CutSuffix(folder, "/..."); ok {
		pattern = filepath.Join(up, "*", "*_test.go")
	}
	out, err := exec.Command("sh", "-c", `grep -hE "^func Benchmark\w*`+strings.TrimPrefix(strings.TrimSuffix(args[at+1], "."), "Benchmark")+`" `+pattern).Output()
	if err != nil || len(out) == 0 {
		return fmt.Errorf("no such benchmark in %s: %w", pattern, err)
	}
	return nil
}

// toolKnows returns what checks the commands of a tool of OVN or Open vSwitch: those that it lists.
// Without the tool nothing is checked, but for CI, where that is a failure.
func toolKnows(t *testing.T, tool string) func([]string) error {
	help, err := exec.Command(tool, "--help").Output()
	if err != nil {
		lab.Lack(t, "%s --help: %v", tool, err)
	}
	return func(args []string) error {
		if tool == "ovs-ofctl" && args[0] == "-O" {
			args = args[2:]
		}
		begin := true
		for _, word := range args {
			switch {
			case word == "--":
				begin = true
			case strings.HasPrefix(word, "-"):
			case begin:
				begin = false
				// Commands for any table are named in the manual page alone.
				database := []string{"list", "find", "get", "set", "add", "remove", "clear", "create", "destroy", "wait-until", "sync", "show", "init"}
				if !slices.Contains(database, word) && !regexp.MustCompile(`(?m)^\s+(?:\[[^]]*\] ?)*`+regexp.QuoteMeta(word)+`\b`).Match(help) {
					return fmt.Errorf("no command %s", word)
				}
			}
		}
		return nil
	}
}
