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
}

type ovsInterface struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Type        string            `ovsdb:"type"`
	OFPort      *int              `ovsdb:"ofport"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// monitored names what the models have. libovsdb asks for every column of the
// schema otherwise, and an interface's statistics change every few seconds. It
// refuses a server that lacks a column, so none is here that an old one has not.
var monitored = []client.TableMonitor{
	{Table: openVSwitchTable, Fields: []string{"external_ids"}},
	{Table: bridgeTable, Fields: []string{"name", "ports"}},
	{Table: portTable, Fields: []string{"name", "tag", "interfaces", "other_config"}},
	{Table: interfaceTable, Fields: []string{"name", "type", "ofport", "external_ids"}},
}

func dbModel() (model.ClientDBModel, error) {
	return model.NewClientDBModel(database, map[string]model.Model{
		openVSwitchTable: &openVSwitch{},
		bridgeTable:      &ovsBridge{},
		portTable:        &ovsPort{},
		interfaceTable:   &ovsInterface{},
	})
}

// tables holds the rows of each table by UUID. The rows are the cache's own and
// never written: the cache replaces a row that changes.
type tables map[string]map[string]model.Model

func read(c *cache.TableCache) tables {
	t := make(tables, len(monitored))
	for _, m := range monitored {
		t[m.Table] = c.Table(m.Table).RowsShallow()
	}
	return t
}

// readWhole gives the tables as they are between two transactions. The cache
// applies a transaction row by row and locks one table at a time, but
// cache.Table waits while a transaction is applied. So two readings of the very
// same rows were both whole; else a transaction came in between, and its events
// ask for another try.
func readWhole(c *cache.TableCache) (tables, bool) {
	first, second := read(c), read(c)
	for name := range first {
		if !maps.Equal(first[name], second[name]) {
			return nil, false
		}
	}
	return second, true
}
