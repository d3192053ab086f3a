// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/control/remedy"
)

// diagnosis is what doctor has found.
type diagnosis struct {
	// Well is set if nothing that was found needs a remedy.
	Well     bool      `json:"well"`
	Findings []finding `json:"findings"`
}

// finding is one thing that was looked at.
type finding struct {
	// Level is ok, note or problem.
	Level string `json:"level"`
	// About is what was looked at: a bridge, a database, a port.
	About string `json:"about"`
	Text  string `json:"text"`
	// Remedy says what to do about it, and Commands has lines to paste.
	Remedy   string   `json:"remedy,omitempty"`
	Commands []string `json:"commands,omitempty"`
	// Docs is as in [api.Problem].
	Docs string `json:"docs,omitempty"`
}

// newFinding returns a problem or a warning of the process as a finding.
func newFinding(level string, p *api.Problem) finding {
	return finding{Level: level, About: p.About, Text: p.Text, Remedy: p.Remedy, Commands: p.Commands, Docs: p.Docs}
}

// remedied returns a finding whose remedy is the one of a code.
func remedied(f finding, code string, c *remedy.Context) finding {
	r := remedy.Of(code, c)
	f.Remedy, f.Commands, f.Docs = r.Text, slices.Concat(f.Commands, r.Commands), r.Docs
	return f
}

// The levels of findings.
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
		Short: "Look for what commonly goes wrong, and say what to do",
		Long: `doctor looks for what commonly goes wrong, and says what to do about it: sockets that may not be
written, a bridge that is not there, another process, databases behind a firewall, interfaces that are
not served; and for each guest whether DHCP tells it to ask puntdns and gives it a route there, whether
another port has the resolver address, and by a trace in the switch whether an ACL drops its query
before the punt. The trace changes nothing in the switch. It takes root, and ovs-appctl.

PORT or SWITCH is whose guests to look at; without it the first 16 are traced.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.completePorts,
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
			if !d.Well {
				return errUnwell
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&vswitchd, "vswitchd", "ovs-vswitchd", "target of ovs-appctl(8)")
	return cmd
}

// diagnose looks at all that there is.
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
	if len(args) > 0 && !selectGuests(&all, args[0]) {
		unknown := "no guest here has this port or switch, and no interface this port"
		if len(s.Problems) == 0 {
			return &exitError{exitUnwell, fmt.Errorf("%q: %s", args[0], unknown)}
		}
		// A bridge that is not served has no guests, so what is wrong with it may be the cause.
		d.add(finding{Level: levelProblem, About: fmt.Sprintf("%q", args[0]), Text: unknown, Remedy: "look at the problems above first: a bridge that is not served has no guests"})
		return nil
	}
	d.guests(s, &all)
	defer showProgress(cmd.ErrOrStderr(), "tracing queries through the switch")()
	d.traces(ctx, s, &all, ovsAppctl(vswitchd))
	return nil
}

// status adds the problems and warnings of the process, each with its remedy.
func (d *diagnosis) status(s *api.Status) {
	for _, p := range s.Problems {
		if p.Code == api.CodeUnserved {
			continue // each of them is a finding of its own
		}
		d.add(newFinding(levelProblem, &p))
	}
	for _, p := range s.Warnings {
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

// withRemedy adds to the error of a process that can't be asked where to look for it.
func withRemedy(err error, path string) error {
	var exit *exitError
	if !errors.As(err, &exit) || exit.status != exitNoProcess {
		return err
	}
	return &exitError{exitNoProcess, fmt.Errorf("%w\n  does it run?        systemctl status puntdns; journalctl -u puntdns -n 20\n  has it a socket?    grep control /etc/puntdns/Corefile    # control unix:%s\n  who may ask?        ls -l %s    # its owner, and root", exit.err, path, path)}
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

// remedy writes what to do, and lines to paste.
func (p *page) remedy(indent, text string, commands []string) {
	if text != "" {
		p.linef("%s%s", indent, text)
	}
	for _, line := range commands {
		p.linef("%s  %s", indent, line)
	}
}

// tracer traces a packet through a bridge, and returns what the switch says of its way.
type tracer func(ctx context.Context, bridge, flow string) (string, error)
