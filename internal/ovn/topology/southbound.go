// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// Tables of ovn-sb(5), without CoPP.
const (
	TableChassis  = "Chassis"
	TableDatapath = "Datapath_Binding"
	TablePort     = "Port_Binding"
	TableDNS      = "DNS" // in both databases
	TableFlow     = "Logical_Flow"
)

// Southbound is the rows of OVN_Southbound. Source.mu guards it.
type Southbound struct {
	Contents

	Chassis   *rows.Table[Chassis]
	Datapaths *rows.Table[Datapath]
	Ports     *rows.Table[PortBinding]
	DNS       *rows.Table[southboundDNS]
	Flows     *rows.Table[Flow]
	CoPP      copp
	// stage is DNSStage for a version of Flows.
	stage        ovn.Stage
	stageVersion uint64

	// IsReadByName reports whether conditions request a port by name.
	IsReadByName func(port string) bool
	// selfName is the name of the local chassis, "" for none. Self is its row, zero for none. ChassisKnown is
	// set once the row has existed.
	selfName     string
	Self         ovsdb.UUID
	ChassisKnown bool
	ChassisNamed rows.Index[string, Chassis]
	// Networks has the datapaths of a network, several only while northd replaces one.
	Networks rows.Index[origin.Network, Datapath]
	named    rows.Index[string, Datapath]
	// PortNamed has ports by logical_port.
	PortNamed rows.Names[PortBinding]
	// PortsOf and DNSOf have the rows that refer to a datapath.
	PortsOf rows.Index[ovsdb.UUID, PortBinding]
	DNSOf   rows.Index[ovsdb.UUID, southboundDNS]
	links   datapathLinks
}

// NewSouthbound returns the tables of Southbound. where are the first conditions of most tables, labelKeys the
// requested keys of external_ids.
func NewSouthbound(where []ovsdb.Condition, labelKeys func() []string) *Southbound {
	s := &Southbound{
		ChassisNamed: make(rows.Index[string, Chassis]),
		Networks:     make(rows.Index[origin.Network, Datapath]),
		named:        make(rows.Index[string, Datapath]),
		PortNamed:    make(rows.Names[PortBinding]),
		PortsOf:      make(rows.Index[ovsdb.UUID, PortBinding]),
		DNSOf:        make(rows.Index[ovsdb.UUID, southboundDNS]),
		links:        newDatapathLinks(),
	}
	s.Chassis = rows.NewTable(TableChassis, nil, s.chassisChanged, chassisColumns()...)
	s.Datapaths = rows.NewTable(TableDatapath, where, s.datapathChanged, datapathColumns()...)
	s.Ports = rows.NewTable(TablePort, where, withProblems(&s.Changes, SouthboundName, TablePort, s.portChanged), bindingColumns(labelKeys)...)
	s.DNS = rows.NewTable(TableDNS, where, withProblems(&s.Changes, SouthboundName, TableDNS, s.dnsChanged), southboundDNSColumns()...)
	s.Flows = rows.NewTable(TableFlow, []ovsdb.Condition{
		{Column: "external_ids", Function: "includes", Value: map[string]string{"stage-name": StageName}},
	}, s.flowChanged, flowColumns()...)
	s.CoPP = newCoPP(s)
	s.Tables = rows.Tables{s.Chassis, s.Ports, s.DNS, s.Datapaths, s.Flows, s.CoPP.Groups, s.CoPP.Meters, s.CoPP.Bands}
	return s
}

// The methods of View follow.

func (s *Southbound) NetworkIDs(yield func(origin.Network) bool) { maps.Keys(s.Networks)(yield) }

func (s *Southbound) NetworksNamed(name string) (ids []origin.Network) {
	for _, d := range s.named[name] {
		ids = append(ids, d.Network)
	}
	return ids
}
