// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/control/remedy"
)

type diagnosis struct {
	Well     bool      `json:"well"`
	Findings []finding `json:"findings"`
}

type finding struct {
	// Level is ok, note or problem.
	Level string `json:"level"`
	// Code is as in api.Problem, "" for puntctl's own checks.
	Code string `json:"code,omitempty"`
	// About is a bridge, a database or a port.
	About    string   `json:"about"`
	Text     string   `json:"text"`
	Remedy   string   `json:"remedy,omitempty"`
	Commands []string `json:"commands,omitempty"`
	Docs     string   `json:"docs,omitempty"`
}

func newFinding(level string, p *api.Problem) finding {
	return finding{Level: level, Code: p.Code, About: p.About, Text: p.Text, Remedy: p.Remedy, Commands: p.Commands, Docs: p.Docs}
}

// remedied adds the remedy of a code to f.
func remedied(f finding, code string, c *remedy.Context) finding {
	r := remedy.Of(code, c)
	f.Code, f.Remedy, f.Commands, f.Docs = code, r.Text, slices.Concat(f.Commands, r.Commands), r.Docs
	return f
}

const (
	levelOK      = "ok"
	levelNote    = "note"
	levelProblem = "problem"
)

func (d *diagnosis) add(f finding) { d.Findings = append(d.Findings, f) }

func doctorCommand(o *options) *cobra.Command {
	var vswitchd string
	cmd := &cobra.Command{
		Use:   "doctor [PORT|SWITCH]",
		Short: "Look for common faults, and print their remedies",
		Long: `doctor looks for common faults, and prints a remedy for each. It checks
  - the permissions of sockets, the bridge, the databases, and whether another
    process owns the flows
  - interfaces that are not served
  - whether DHCP announces a resolver address and a route to each guest
  - whether another port has the resolver address
  - whether an ACL drops a query before the punt, by a trace in the switch
  - whether an ACL lets a guest with an egress policy send to any address, by
    its ACLs and by a trace

doctor changes nothing. The trace needs root and ovs-appctl.

PORT is a logical port, an interface, an IP address or a MAC address. SWITCH is
a logical switch. Without an argument doctor traces the queries of the first 16
guests.

Exit status:
  0  no check has found a problem
  1  there is a problem, or no such guest
  2  the command line is wrong
  3  puntdns does not run, has no control socket, or refuses this user
  4  no check has found a problem, but queries were not traced, so the switch
     may still drop them`,
		Example: `  puntctl doctor
  puntctl doctor red-vm1`,
		Args:              needs(0),
		ValidArgsFunction: o.completeFirst,
		RunE: func(cmd *cobra.Command, args []string) error {
			d := &diagnosis{Findings: []finding{}}
			err := o.diagnose(cmd, d, args, vswitchd)
			if err != nil {
				return err
			}
			d.Well = !slices.ContainsFunc(d.Findings, func(f finding) bool { return f.Level == levelProblem })
			if err := o.write(cmd.OutOrStdout(), d, func(p *page) { p.diagnosis(d) }); err != nil {
				return err
			}
			switch {
			case !d.Well:
				return errUnwell
			case slices.ContainsFunc(d.Findings, func(f finding) bool { return f.Code == api.CodeNotTraced }):
				return errNotTraced
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&vswitchd, "vswitchd", "ovs-vswitchd", "target of ovs-appctl(8)")
	return cmd
}

func (o *options) diagnose(cmd *cobra.Command, d *diagnosis, args []string, vswitchd string) error {
	ctx, c := cmd.Context(), o.client(cmd)
	s, err := c.status(ctx)
	if err != nil {
		return withRemedy(err, c.path)
	}
	d.add(finding{Level: levelOK, About: c.path, Text: fmt.Sprintf("process %d answers: %s", s.Process.PID, s.Process.Version)})
	d.status(s)
	var all api.Guests
	if err := c.get(ctx, api.PathGuests, nil, &all); err != nil {
		return err
	}
	unknownSwitch := slices.ContainsFunc(all.Unserved, func(u api.Unserved) bool { return u.Switch == "" && !u.Expected })
	if len(args) > 0 && !selectGuests(&all, args[0]) {
		unknown := "no guest or interface of this node has this name or address"
		if len(s.Problems) == 0 {
			return &exitError{status: exitUnwell, err: fmt.Errorf("PORT|SWITCH %q: %s", args[0], unknown)}
		}
		// A bridge that is not served has no guests, which may be the cause.
		d.add(finding{Level: levelProblem, About: fmt.Sprintf("%q", args[0]), Text: unknown, Remedy: "look at the problems above first: a bridge that is not served has no guests"})
		return nil
	}
	if len(args) > 0 && unknownSwitch && slices.ContainsFunc(all.Guests, func(g api.Guest) bool { return g.Switch == args[0] || g.Network == args[0] }) {
		d.unserved(s) // one may be of the switch
	}
	d.guests(s, &all, len(args) > 0)
	defer showProgress(cmd.ErrOrStderr(), "tracing queries through the switch")()
	most := maxTraces
	if len(args) > 0 {
		most = len(all.Guests)
	}
	d.traces(ctx, s, all.Guests[:min(most, len(all.Guests))], newTracer(vswitchd, c))
	if n := len(all.Guests); n > most {
		d.add(finding{Level: levelNote, About: "trace", Text: fmt.Sprintf("only the queries of the first %d of %d guests were traced", most, n), Remedy: "name a PORT or a SWITCH for others"})
	}
	return nil
}

func (d *diagnosis) status(s *api.Status) {
	for _, p := range s.Problems {
		if p.Code == api.CodeUnserved {
			continue // see guests
		}
		d.add(newFinding(levelProblem, &p))
	}
	for _, p := range s.Warnings {
		if p.Code == api.CodeOverLimit || p.Code == api.CodeEgressOpen {
			continue // see guests
		}
		d.add(newFinding(levelNote, &p))
	}
	for i := range s.Bridges {
		if b := &s.Bridges[i]; b.Serving {
			d.add(finding{Level: levelOK, About: b.Name, Text: fmt.Sprintf("it is served, guests: %d", b.Guests.Served)})
		}
	}
	for i := range s.Databases {
		if db := &s.Databases[i]; db.Synced {
			d.add(finding{Level: levelOK, About: db.Name, Text: "in sync with " + db.Endpoint})
		}
	}
}

func (d *diagnosis) unserved(s *api.Status) {
	for _, p := range s.Problems {
		if p.Code == api.CodeUnserved {
			d.add(newFinding(levelProblem, &p))
		}
	}
}

// withRemedy adds hints to the error of an unreachable process.
func withRemedy(err error, path string) error {
	var exit *exitError
	if !errors.As(err, &exit) || exit.status != exitNoProcess {
		return err
	}
	return &exitError{status: exitNoProcess, err: fmt.Errorf("%w\n  does it run?        systemctl status puntdns; journalctl -u puntdns -n 20\n  has it a socket?    grep control /etc/puntdns/Corefile    # control unix:%s\n  who may ask?        ls -l %s    # its owner, and root", exit.err, path, path)}
}

func (p *page) diagnosis(d *diagnosis) {
	for _, f := range d.Findings {
		mark := in(green, "ok      ")
		switch f.Level {
		case levelProblem:
			mark = in(red, "problem ")
		case levelNote:
			mark = in(yellow, "note    ")
		}
		p.line(mark, said(f.About+": "+f.Text))
		p.remedy("           ", f.Remedy, f.Commands)
	}
}

func (p *page) remedy(indent, text string, commands []string) {
	if text != "" {
		p.linef("%s%s", indent, text)
	}
	for _, line := range commands {
		p.linef("%s  %s", indent, line)
	}
}
