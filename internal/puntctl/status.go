// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
)

func statusCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show whether all is well, and what puntdns serves",
		Long: `status shows whether all is well, and what puntdns serves: each bridge with its
connection, OVN's DNS stage, the lease, the flows with the switch's packet
counts, and the number of guests; and each database.

Lines that begin with "not well" are problems: some guests get no answers. The
exit status is then 1.
Lines that begin with "warning" do not change the exit status:
  - puntdns refused a reload, so the last good Corefile stays in force
  - values in a database can't be used
  - a DNS server that a network names, or that forward asks, gives no answers
  - the snapshot can't be saved`,
		Example: `  puntctl status
  puntctl status -o json | jq '.problems[].code'`,
		Args: needs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := o.client(cmd).status(cmd.Context())
			if err != nil {
				return err
			}
			if err := o.write(cmd.OutOrStdout(), s, func(p *page) { p.status(s) }); err != nil {
				return err
			}
			if !s.Well {
				return errUnwell
			}
			return nil
		},
	}
}

func (p *page) status(s *api.Status) {
	p.problems(s.Problems)
	for _, w := range s.Warnings {
		p.line(in(yellow, "warning:"), said(w.About+": "+w.Text), said("["+w.Code+"]"))
	}
	p.linef("process   %s, pid %d, user %d, up %s, %s", s.Process.Version, s.Process.PID, s.Process.UID, seconds(s.Process.UptimeSeconds), s.Process.Go)
	if c := &s.Corefile; c.Taken != nil {
		p.linef("corefile  %s, as taken at %s", c.Path, c.Taken.Format(time.DateTime))
	}
	for i := range s.Bridges {
		p.bridge(&s.Bridges[i])
	}
	if len(s.Databases) > 0 {
		p.linef("")
		p.databases(s.Databases)
	}
}

func (p *page) problems(all []api.Problem) {
	if len(all) == 0 {
		p.line(in(green, "well"))
		return
	}
	for _, problem := range all {
		p.line(in(red, "not well:"), said(problem.About+": "+problem.Text), said("["+problem.Code+"]"))
	}
}

func (p *page) bridge(b *api.Bridge) {
	p.linef("")
	state := in(green, "serving")
	if !b.Serving {
		state = in(red, "not serving: "+b.Waiting)
	}
	p.line(said("bridge "+b.Name+":"), state)
	facts := [][2]cell{
		{said("connection"), connection(&b.Connection)},
		{said("local database"), localDatabase(&b.LocalDatabase)},
		{said("chassis"), said(b.Chassis)},
		{said("placement"), said(placement(&b.Placement))},
		{said("addresses"), said(strings.Join(b.Addresses, " "))},
		{said("lease"), lease(&b.Lease)},
		{said("flows"), flows(&b.Flows)},
	}
	if c := b.Flows.Counted; c != nil {
		facts = append(facts, [2]cell{said("packets"), said(fmt.Sprintf("%d from guests, %d punted, %d passed on without a punt", c.EntryPackets, c.PuntPackets, c.PassedPackets))})
	}
	facts = append(facts,
		[2]cell{said("guests"), guestCounts(&b.Guests)},
		[2]cell{said("in flight"), said(fmt.Sprintf("%d queries, %d TCP connections", b.QueriesInFlight, b.TCPConnections))})
	p.facts(facts)
}

func connection(c *api.Connection) cell {
	if !c.Up {
		return in(red, c.Endpoint+", down"+because(c.Failure))
	}
	words := []string{c.Endpoint, c.Version, "datapath " + c.DatapathID, fmt.Sprintf("controller id %d", c.ControllerID)}
	if c.Switch != "" {
		words = append(words, c.Switch)
	}
	if c.Since != nil {
		words = append(words, "since "+c.Since.Format("2006-01-02 15:04:05"))
	}
	return said(strings.Join(words, ", "))
}

func because(f *api.Failure) string {
	if f == nil {
		return ""
	}
	return ": " + f.Text
}

func localDatabase(d *api.LocalDatabase) cell {
	switch {
	case !d.Up:
		return in(red, d.Endpoint+", not read"+because(d.Failure))
	case !d.HasBridge:
		return in(red, d.Endpoint+", without the bridge")
	}
	return said(d.Endpoint + ", read")
}

func placement(p *api.Placement) string {
	switch {
	case p.Table == nil:
		return p.Kind + ", no entry flows so far"
	case p.StageTable == nil:
		return fmt.Sprintf("%s, entry flows in table %d at priority %d", p.Kind, *p.Table, p.Priority)
	}
	logical := ""
	if p.LogicalTable != nil {
		logical = fmt.Sprintf(" (logical table %d)", *p.LogicalTable)
	}
	return fmt.Sprintf("%s, entry flows in table %d at priority %d, before the DNS stage in table %d%s", p.Kind, *p.Table, p.Priority, *p.StageTable, logical)
}

func lease(l *api.Lease) cell {
	if l.Seconds == 0 {
		return said("none, the punt stands for good")
	}
	text := "of " + seconds(l.Seconds)
	if l.LastHeartbeatSecondsAgo != nil {
		text += fmt.Sprintf(", last heartbeat %s ago", seconds(*l.LastHeartbeatSecondsAgo))
	}
	if l.LeftSeconds != nil {
		text += fmt.Sprintf(", %s left", seconds(*l.LeftSeconds))
	}
	if l.Overdue {
		return in(red, text+", overdue")
	}
	return said(text)
}

func flows(f *api.Flows) cell {
	if f.OtherProcess {
		return in(red, "another process has them")
	}
	text := fmt.Sprintf("%d", f.Expected)
	if f.Cookie != "" {
		text += ", cookie " + f.Cookie
	}
	switch c := f.Counted; {
	case c == nil && f.Error != "":
		return in(yellow, text+", not counted: "+f.Error)
	case c != nil && c.Flows != f.Expected:
		return in(yellow, fmt.Sprintf("%s, the switch counts %d", text, c.Flows))
	case c != nil:
		text += ", as the switch counts"
	}
	return said(text)
}

func guestCounts(g *api.GuestCounts) cell {
	text := fmt.Sprintf("%d served", g.Served)
	if g.Retained > 0 {
		text += fmt.Sprintf(" (%d kept without a binding)", g.Retained)
	}
	text += fmt.Sprintf(", %d without an address, %d not served", g.WithoutAddress, g.Unserved)
	if g.WithoutAddress+g.Unserved+g.Retained > 0 {
		return in(yellow, text)
	}
	return said(text)
}

func (p *page) databases(all []api.Database) {
	rows := make([][]cell, 0, len(all))
	for i := range all {
		d := &all[i]
		state := in(green, "in sync")
		if !d.Synced {
			state = in(red, "not in sync"+because(d.Failure))
		}
		age := ""
		if d.Snapshot.AgeSeconds != nil {
			age = seconds(*d.Snapshot.AgeSeconds)
		}
		rows = append(rows, []cell{
			said(d.Name), said(d.Endpoint), said(role(d)), said(age), numberOf(d.Snapshot.Networks), numberOf(d.Snapshot.Ports),
			numberOf(d.Snapshot.DNSRows), numberOf(d.Snapshot.Names), state,
		})
	}
	p.table([]column{
		{"DATABASE", 0}, {"ENDPOINT", cut}, {"SERVER", wide}, {"CHANGED", 0}, {"NETWORKS", wide}, {"PORTS", wide}, {"DNS ROWS", wide}, {"NAMES", 0}, {"STATE", wrap},
	}, rows)
}

func role(d *api.Database) string {
	switch {
	case d.Model == "clustered" && d.Leader:
		return "leader"
	case d.Model == "clustered":
		return "follower"
	}
	return d.Model
}
