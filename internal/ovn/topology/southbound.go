// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"

	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

const (
	TableChassis  = "Chassis"
	TableDatapath = "Datapath_Binding"
	TablePort     = "Port_Binding"
	TableDNS      = "DNS" // in both databases
	TableFlow     = "Logical_Flow"
	TableACLID    = "ACL_ID"
)

// Southbound is the rows of OVN_Southbound. Source.mu guards it.
type Southbound struct {
	Contents

	Chassis    *rows.Table[Chassis]
	Datapaths  *rows.Table[Datapath]
	Ports      *rows.Table[PortBinding]
	DNS        *rows.Table[southboundDNS]
	Flows      *rows.Table[Flow]
	CoPP       copp
	PortGroups *portGroups[string]
	// PersistentACLs has a row for each ACL with persist-established. OVN has the table from 25.03 on.
	PersistentACLs *rows.Table[aclID]
	stage          ovn.Stage
	stageVersion   uint64

	// IsReadByName reports whether conditions request a port by name.
	IsReadByName func(port string) bool
	// Self is the row of the local chassis, or zero. ChassisKnown is set once the row has existed.
	selfName     string
	Self         ovsdb.UUID
	ChassisKnown bool
	ChassisNamed rows.Index[string, Chassis]
	// A network has several datapaths only while northd replaces one.
	Networks  rows.Index[origin.Network, Datapath]
	named     rows.Index[string, Datapath]
	PortNamed rows.Names[PortBinding]
	PortsOf   rows.Index[ovsdb.UUID, PortBinding]
	DNSOf     rows.Index[ovsdb.UUID, southboundDNS]
	links     datapathLinks
}

// NewSouthbound returns the tables. where are the first conditions of most tables, labelKeys the requested
// external_ids keys.
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
		{Column: "external_ids", Function: "includes", Value: map[string]string{"stage-name": StatefulStage}},
	}, s.flowChanged, flowColumns()...)
	s.CoPP = newCoPP(s)
	s.PortGroups = newSouthboundGroups(s)
	s.PersistentACLs = rows.NewTable(TableACLID, nil, func(ovsdb.UUID, *aclID, *aclID) {}, rows.Integer("id", func(a *aclID) *int64 { return &a.id })).Optional()
	s.Tables = rows.Tables{s.Chassis, s.Ports, s.DNS, s.Datapaths, s.Flows, s.CoPP.Groups, s.CoPP.Meters, s.CoPP.Bands, s.PortGroups, s.PersistentACLs}
	return s
}

type aclID struct{ id int64 }

func (s *Southbound) NetworkIDs(yield func(origin.Network) bool) { maps.Keys(s.Networks)(yield) }

func (s *Southbound) NetworksNamed(name string) (ids []origin.Network) {
	for _, d := range s.named[name] {
		ids = append(ids, d.Network)
	}
	return ids
}
