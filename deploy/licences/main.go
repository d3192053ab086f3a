// SPDX-License-Identifier: Apache-2.0

// Command licences writes down under which licences Go programs are, with the texts and notices
// that have to go with them. It fails where a linked module has no licence file, or one that is
// not allowed: see package linked.
//
//	licences -out FOLDER FILE...
//
// The folder gets three files:
//
//	THIRD-PARTY-LICENSES         modules, and the texts of their licences
//	THIRD-PARTY-LICENSES.debian  the same for /usr/share/doc/PACKAGE/copyright of a Debian
//	                             package, which refers to the Apache License (Debian policy, 12.5)
//	SPDX                         the expression for the programs as a whole, in a line
//
// The same programs give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/deploy/linked"
)

func main() {
	out := flag.String("out", "", "the folder that gets the files")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(out string, files []string) error {
	if out == "" || len(files) == 0 {
		return errors.New("expected -out FOLDER PROGRAM")
	}
	modules, err := modulesOf(files)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"THIRD-PARTY-LICENSES":        write(modules, verbatim),
		"THIRD-PARTY-LICENSES.debian": write(modules, forDebian),
		"SPDX":                        linked.Expression(modules) + "\n",
	} {
		if err := os.WriteFile(filepath.Join(out, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// modulesOf returns the modules of all programs, sorted by path.
func modulesOf(files []string) (all []*linked.Module, err error) {
	for _, file := range files {
		modules, err := linked.Read(file)
		if err != nil {
			return nil, err
		}
		for _, m := range modules {
			i, found := slices.BinarySearchFunc(all, m.Path, func(m *linked.Module, path string) int { return strings.Compare(m.Path, path) })
			if !found {
				all = slices.Insert(all, i, m)
				continue
			}
			// Another program may have other packages of it, with licence files of their own.
			for _, t := range m.Texts {
				if !slices.ContainsFunc(all[i].Texts, func(o linked.Text) bool { return o.Name == t.Name }) {
					all[i].Texts = append(all[i].Texts, t)
				}
			}
		}
	}
	return all, nil
}
