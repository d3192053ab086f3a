// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"maps"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// The tables of ovn-sb(5) that are read, those of CoPP aside.
const (
	tableChassis  = "Chassis"
	tableDatapath = "Datapath_Binding"
	tablePort     = "Port_Binding"
	tableDNS      = "DNS" // in both databases
	tableFlow     = "Logical_Flow"
)

// southbound is the rows of OVN_Southbound. Source.mu guards it.
type southbound struct {
	contents

	chassis   *rows.Table[chassis]
	datapaths *rows.Table[datapath]
	ports     *rows.Table[binding]
	dns       *rows.Table[southboundDNS]
	flows     *rows.Table[flow]
	copp      copp
	// stage is dnsStage for a version of flows.
	stage        stage
	stageVersion uint64

	// isReadByName reports whether conditions ask for a port by its name.
	isReadByName func(port string) bool
	// selfName is the name of the local chassis, "" for none. self is its row, zero if there is
	// none. located is set once there was such a row.
	selfName     string
	self         ovsdb.UUID
	located      bool
	chassisNamed rows.Index[string, chassis]
	// networks has the datapaths of a network: one, but while northd replaces it.
	networks rows.Index[origin.Network, datapath]
	// named has the datapaths of switches of a name.
	named rows.Index[string, datapath]
	// portNamed finds a port by its logical_port.
	portNamed rows.Names[binding]
	// portsOf and dnsOf have the rows that refer to a datapath.
	portsOf rows.Index[ovsdb.UUID, binding]
	dnsOf   rows.Index[ovsdb.UUID, southboundDNS]
	links   datapathLinks
}

// newSouthbound returns the tables of Southbound. where are the first conditions of most, labelKeys are the keys
// of external_ids that are read.
func newSouthbound(where []ovsdb.Condition, labelKeys func() []string) *southbound {
	s := &southbound{
		chassisNamed: make(rows.Index[string, chassis]),
		networks:     make(rows.Index[origin.Network, datapath]),
		named:        make(rows.Index[string, datapath]),
		portNamed:    make(rows.Names[binding]),
		portsOf:      make(rows.Index[ovsdb.UUID, binding]),
		dnsOf:        make(rows.Index[ovsdb.UUID, southboundDNS]),
		links:        newDatapathLinks(),
	}
	s.chassis = rows.NewTable(tableChassis, nil, s.chassisChanged, chassisColumns()...)
	s.datapaths = rows.NewTable(tableDatapath, where, s.datapathChanged, datapathColumns()...)
	s.ports = rows.NewTable(tablePort, where, withProblems(&s.changes, southboundName, tablePort, s.portChanged), bindingColumns(labelKeys)...)
	s.dns = rows.NewTable(tableDNS, where, withProblems(&s.changes, southboundName, tableDNS, s.dnsChanged), southboundDNSColumns()...)
	s.flows = rows.NewTable(tableFlow, []ovsdb.Condition{
		{Column: "external_ids", Function: "includes", Value: map[string]string{"stage-name": stageName}},
	}, s.flowChanged, flowColumns()...)
	s.copp = newCoPP(s)
	s.tables = rows.Tables{s.chassis, s.ports, s.dns, s.datapaths, s.flows, s.copp.groups, s.copp.meters, s.copp.bands}
	return s
}

// The methods of topology follow.

func (s *southbound) networkIDs(yield func(origin.Network) bool) { maps.Keys(s.networks)(yield) }

func (s *southbound) networksNamed(name string) (ids []origin.Network) {
	for _, d := range s.named[name] {
		ids = append(ids, d.network)
	}
	return ids
}
