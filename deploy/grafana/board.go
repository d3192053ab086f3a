// SPDX-License-Identifier: Apache-2.0

package main

// board is a dashboard: rows of panels.
type board struct {
	uid, title string
	// bridges is set if the reader chooses nodes and bridges.
	bridges bool
	rows    []row
}

type row struct {
	title  string
	panels []panel
}

// panel is a graph, or a number if stat is set.
type panel struct {
	title, description string
	// unit is one of Grafana's (packages/grafana-data, valueFormats/categories.ts).
	unit    string
	stat    bool
	queries []query
}

// query is one PromQL expression, and how its series are called.
type query struct{ expr, legend string }

// The grid of Grafana has 24 columns.
const (
	gridWidth   = 24
	graphWidth  = 8
	graphHeight = 8
	statWidth   = 4
	statHeight  = 4
)

// The JSON model of a dashboard (Grafana's documentation, "Dashboard JSON model"), as far as it
// is used here.
type (
	model struct {
		UID           string     `json:"uid"`
		Title         string     `json:"title"`
		Tags          []string   `json:"tags"`
		SchemaVersion int        `json:"schemaVersion"`
		Editable      bool       `json:"editable"`
		GraphTooltip  int        `json:"graphTooltip"`
		Refresh       string     `json:"refresh"`
		Time          timeRange  `json:"time"`
		Templating    templating `json:"templating"`
		Panels        []any      `json:"panels"`
	}
	timeRange struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	templating struct {
		List []variable `json:"list"`
	}
	variable struct {
		Name       string      `json:"name"`
		Label      string      `json:"label"`
		Type       string      `json:"type"`
		Query      string      `json:"query"`
		Datasource *datasource `json:"datasource,omitempty"`
		Refresh    int         `json:"refresh"`
		Multi      bool        `json:"multi"`
		IncludeAll bool        `json:"includeAll"`
		AllValue   string      `json:"allValue,omitempty"`
		Sort       int         `json:"sort"`
	}
	datasource struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	gridPos struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}
	rowModel struct {
		ID        int     `json:"id"`
		Type      string  `json:"type"`
		Title     string  `json:"title"`
		Collapsed bool    `json:"collapsed"`
		GridPos   gridPos `json:"gridPos"`
		Panels    []any   `json:"panels"`
	}
	panelModel struct {
		ID          int         `json:"id"`
		Type        string      `json:"type"`
		Title       string      `json:"title"`
		Description string      `json:"description,omitempty"`
		Datasource  datasource  `json:"datasource"`
		GridPos     gridPos     `json:"gridPos"`
		FieldConfig fieldConfig `json:"fieldConfig"`
		Targets     []target    `json:"targets"`
	}
	fieldConfig struct {
		Defaults  defaults `json:"defaults"`
		Overrides []any    `json:"overrides"`
	}
	defaults struct {
		Unit string `json:"unit"`
		Min  *int   `json:"min,omitempty"`
	}
	target struct {
		RefID        string     `json:"refId"`
		Expr         string     `json:"expr"`
		LegendFormat string     `json:"legendFormat"`
		Datasource   datasource `json:"datasource"`
	}
)

// chosen is the data source that the reader has chosen.
var chosen = datasource{Type: "prometheus", UID: "${datasource}"}

func (b board) model() model {
	m := model{
		UID: b.uid, Title: b.title, Tags: []string{"dns", "puntdns"}, SchemaVersion: 39, Editable: true, GraphTooltip: 1,
		Refresh: "30s", Time: timeRange{"now-1h", "now"},
	}
	m.Templating.List = []variable{{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus"}}
	if b.bridges {
		m.Templating.List = append(m.Templating.List,
			variable{Name: "instance", Label: "Node", Type: "query", Query: "label_values(coredns_ofpunt_connected, instance)", Datasource: &chosen, Refresh: 2, Sort: 1},
			variable{Name: "bridge", Label: "Bridge", Type: "query", Query: `label_values(coredns_ofpunt_connected{instance=~"$instance"}, bridge)`, Datasource: &chosen, Refresh: 2, Multi: true, IncludeAll: true, AllValue: ".*", Sort: 1})
	}
	id, y := 0, 0
	for _, r := range b.rows {
		id++
		m.Panels = append(m.Panels, rowModel{ID: id, Type: "row", Title: r.title, GridPos: gridPos{1, gridWidth, 0, y}, Panels: []any{}})
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			id++
			w, h := p.size()
			if x+w > gridWidth || height != 0 && h != height {
				x, y = 0, y+height
			}
			m.Panels = append(m.Panels, p.model(id, gridPos{h, w, x, y}))
			x, height = x+w, h
		}
		y += height
	}
	return m
}

func (p panel) size() (width, height int) {
	if p.stat {
		return statWidth, statHeight
	}
	return graphWidth, graphHeight
}

func (p panel) model(id int, at gridPos) panelModel {
	least := 0
	m := panelModel{
		ID: id, Type: "timeseries", Title: p.title, Description: p.description, Datasource: chosen, GridPos: at,
		FieldConfig: fieldConfig{Defaults: defaults{Unit: p.unit, Min: &least}, Overrides: []any{}},
	}
	if p.stat {
		m.Type = "stat"
	}
	for i, q := range p.queries {
		m.Targets = append(m.Targets, target{RefID: string(rune('A' + i)), Expr: q.expr, LegendFormat: q.legend, Datasource: chosen})
	}
	return m
}
