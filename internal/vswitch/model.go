// SPDX-License-Identifier: Apache-2.0

package vswitch

import (
	"maps"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
)

// The watched tables (ovs-vswitchd.conf.db(5)).
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

// monitored excludes interface statistics, which change every few seconds; by default libovsdb monitors all
// columns. It refuses a server that lacks one.
var monitored = []client.TableMonitor{
	{Table: openVSwitchTable, Fields: []string{"external_ids"}},
	{Table: bridgeTable, Fields: []string{"name", "ports"}},
	{Table: portTable, Fields: []string{"name", "tag", "interfaces", "other_config", "external_ids"}},
	{Table: interfaceTable, Fields: []string{"name", "type", "ofport", "link_state", "external_ids"}},
}

func dbModel() (model.ClientDBModel, error) {
	return model.NewClientDBModel(database, map[string]model.Model{
		openVSwitchTable: &openVSwitch{},
		bridgeTable:      &ovsBridge{},
		portTable:        &ovsPort{},
		interfaceTable:   &ovsInterface{},
	})
}

// tables are rows by table and UUID. They belong to libovsdb's cache: do not change them.
type tables map[string]map[string]model.Model

func read(c *cache.TableCache) tables {
	t := make(tables, len(monitored))
	for _, m := range monitored {
		t[m.Table] = c.Table(m.Table).RowsShallow()
	}
	return t
}

// readConsistent reports false within a transaction, whose events cause another read. The cache applies a
// transaction row by row, but cache.Table waits for the transaction's end: two identical reads were not
// within a transaction.
func readConsistent(c *cache.TableCache) (tables, bool) {
	first, second := read(c), read(c)
	for name := range first {
		if !maps.Equal(first[name], second[name]) {
			return nil, false
		}
	}
	return second, true
}
