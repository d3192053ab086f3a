// SPDX-License-Identifier: Apache-2.0

package vswitch

import (
	"maps"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
)

// The database and the tables that are watched (ovs-vswitchd.conf.db(5)).
const (
	database         = "Open_vSwitch"
	openVSwitchTable = "Open_vSwitch"
	bridgeTable      = "Bridge"
	portTable        = "Port"
	interfaceTable   = "Interface"
)

type openVSwitch struct {
	UUID        string            `ovsdb:"_uuid"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

type ovsBridge struct {
	UUID  string   `ovsdb:"_uuid"`
	Name  string   `ovsdb:"name"`
	Ports []string `ovsdb:"ports"`
}

type ovsPort struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Tag         *int              `ovsdb:"tag"`
	Interfaces  []string          `ovsdb:"interfaces"`
	OtherConfig map[string]string `ovsdb:"other_config"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

type ovsInterface struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Type        string            `ovsdb:"type"`
	OFPort      *int              `ovsdb:"ofport"`
	LinkState   *string           `ovsdb:"link_state"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// monitored are the columns of the models. Without it libovsdb asks for every column of
// the schema, and the statistics of interfaces change every few seconds. It refuses a
// server that lacks a column, so all of these have been in the schema for long.
var monitored = []client.TableMonitor{
	{Table: openVSwitchTable, Fields: []string{"external_ids"}},
	{Table: bridgeTable, Fields: []string{"name", "ports"}},
	{Table: portTable, Fields: []string{"name", "tag", "interfaces", "other_config", "external_ids"}},
	{Table: interfaceTable, Fields: []string{"name", "type", "ofport", "link_state", "external_ids"}},
}

// dbModel maps the tables to the structs of their rows.
func dbModel() (model.ClientDBModel, error) {
	return model.NewClientDBModel(database, map[string]model.Model{
		openVSwitchTable: &openVSwitch{},
		bridgeTable:      &ovsBridge{},
		portTable:        &ovsPort{},
		interfaceTable:   &ovsInterface{},
	})
}

// tables has the rows of each table by UUID. libovsdb's cache owns the rows, and replaces a row that changes:
// do not write to them.
type tables map[string]map[string]model.Model

func read(c *cache.TableCache) tables {
	t := make(tables, len(monitored))
	for _, m := range monitored {
		t[m.Table] = c.Table(m.Table).RowsShallow()
	}
	return t
}

// readConsistent returns the tables as they are between two transactions, and reports
// whether it could. The cache applies a transaction row by row and locks one table at a
// time, but cache.Table waits while a transaction is applied. So if two reads give the
// very same rows, no transaction was applied within either. Else one came in between, and
// its events lead to another read.
func readConsistent(c *cache.TableCache) (tables, bool) {
	first, second := read(c), read(c)
	for name := range first {
		if !maps.Equal(first[name], second[name]) {
			return nil, false
		}
	}
	return second, true
}
