// SPDX-License-Identifier: Apache-2.0

// Command man writes manual pages and shell completions of puntctl at build time, which keeps the generators
// out of puntctl.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/puntdns/puntdns/internal/puntctl"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%q: expected VERSION FOLDER", args)
	}
	root, folder := puntctl.New(args[0]), args[1]
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root.Long += "\n\n" + commands(root)
	header := &doc.GenManHeader{Title: "PUNTCTL", Section: "1", Source: "puntdns " + args[0], Manual: "puntdns"}
	if err := doc.GenManTree(root, header, folder); err != nil {
		return err
	}
	for name, write := range completions(root) {
		if err := write(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}

// commands lists the commands for the page of puntctl. cobra's page only names their pages.
func commands(root *cobra.Command) string {
	lines := []string{"Commands:"}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			lines = append(lines, fmt.Sprintf("  %-8s %s", c.Name(), c.Short))
		}
	}
	return strings.Join(lines, "\n")
}

// completions returns functions by file name.
func completions(root *cobra.Command) map[string]func(string) error {
	return map[string]func(string) error{
		"puntctl.bash": func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"_puntctl":     root.GenZshCompletionFile,
		"puntctl.fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
	}
}
