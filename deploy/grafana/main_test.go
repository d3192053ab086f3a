// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The files are what the tables give.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	for file := range boards {
		want, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != string(want) {
			t.Errorf("%s (%v) is not that of the tables: cd deploy/grafana && go run .", file, err)
		}
	}
}

// units are the units of Grafana that are used (packages/grafana-data,
// valueFormats/categories.ts).
var units = []string{"bytes", "cps", "none", "percentunit", "pps", "reqps", "s"}

// Each panel of the files says what it shows, in which unit, and takes the data source that the
// reader has chosen. None lies over another one.
func TestDashboards(t *testing.T) {
	for file := range boards {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var d struct {
				UID, Title string
				Templating templating
				Panels     []struct {
					shown
					Targets []target
				}
			}
			if err := json.Unmarshal(text, &d); err != nil {
				t.Fatal(err)
			}
			if d.UID == "" || d.Title == "" || len(d.Templating.List) == 0 || d.Templating.List[0].Type != "datasource" {
				t.Errorf("uid %q, title %q, variables %+v", d.UID, d.Title, d.Templating.List)
			}
			ids, titles, taken, rows := map[int]bool{}, map[string]bool{}, map[[2]int]string{}, []string(nil)
			section := ""
			for _, p := range d.Panels {
				if ids[p.ID] || p.Title == "" {
					t.Errorf("panel %d %q: the id is another's, or there is no title", p.ID, p.Title)
				}
				ids[p.ID] = true
				for x := range p.GridPos.W {
					for y := range p.GridPos.H {
						at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
						if other, ok := taken[at]; ok || at[0] >= gridWidth {
							t.Fatalf("%q lies over %q, or outside", p.Title, other)
						}
						taken[at] = p.Title
					}
				}
				if p.Type == "row" {
					section = p.Title
					rows = append(rows, section)
					continue
				}
				if titles[section+p.Title] {
					t.Errorf("there are two panels %q", p.Title)
				}
				titles[section+p.Title] = true
				if !slices.Contains(units, p.FieldConfig.Defaults.Unit) {
					t.Errorf("%q: unit %q", p.Title, p.FieldConfig.Defaults.Unit)
				}
				if p.Datasource != chosen || len(p.Targets) == 0 {
					t.Errorf("%q: data source %+v, %d queries", p.Title, p.Datasource, len(p.Targets))
				}
				for _, q := range p.Targets {
					if q.Expr == "" || q.LegendFormat == "" || q.Datasource != chosen || strings.Contains(q.Expr, "perSecond") {
						t.Errorf("%q: query %+v", p.Title, q)
					}
				}
			}
			for _, want := range []string{"Traffic", "Latency", "Refusals", "Switch", "Databases", "Upstreams", "Cache"} {
				if !slices.Contains(rows, want) {
					t.Errorf("no row %q in %q", want, rows)
				}
			}
		})
	}
}

// shown is what the files have of rows and panels.
type shown struct {
	ID          int
	Type, Title string
	Datasource  datasource
	GridPos     gridPos
	FieldConfig fieldConfig
}
