// SPDX-License-Identifier: Apache-2.0

// Command grafana writes the dashboards node.json and fleet.json into a folder, the present one
// by default. They are made from tables here, as JSON of this kind can't be reviewed by hand:
//
//	cd deploy/grafana && go run .
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := write(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// boards are the dashboards by file.
var boards = map[string]board{"node.json": node, "fleet.json": fleet}

func write(dir string) error {
	for file, b := range boards {
		text, err := render(b)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// render returns the JSON of a dashboard.
func render(b board) ([]byte, error) {
	text, err := json.MarshalIndent(b.model(), "", "  ")
	return append(text, '\n'), err
}
