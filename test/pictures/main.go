// SPDX-License-Identifier: Apache-2.0

// Pictures draws the pictures of the documentation into the folder of the project, from descriptions
// and figures that are committed. It measures nothing.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/puntdns/puntdns/test/svg"
)

// drawing is a picture, checked and as a document.
type drawing interface {
	String() string
	Problems() []string
}

func main() {
	if err := write("."); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// write writes all pictures below the root of the project.
func write(root string) error {
	all, err := draw(root)
	if err != nil {
		return err
	}
	for path, d := range all {
		if err := os.WriteFile(filepath.Join(root, path), []byte(d.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// draw returns all pictures by their paths from the root of the project, where it reads the figures.
func draw(root string) (map[string]drawing, error) {
	all, err := graphs(root)
	if err != nil {
		return nil, err
	}
	all["docs/architecture.svg"] = architecture()
	transcript, err := os.ReadFile(filepath.Join(root, "test/pictures/demo.txt"))
	if err != nil {
		return nil, err
	}
	all["docs/demo.svg"] = svg.NewRecording("make demo: two tenants with the same addresses get answers of their own. "+
		"puntctl explain shows how a name is answered, and which ACL keeps a query from puntdns.", string(transcript))
	all["docs/path.svg"] = path()
	all["docs/path-without-ovn.svg"] = pathWithoutOVN()
	return all, nil
}
