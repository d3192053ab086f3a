// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
)

func topCommand(o *options) *cobra.Command {
	t := &topper{options: o, interval: api.DefaultTopInterval, limit: api.DefaultTopLimit}
	var f filters
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show which guests, names, networks and upstreams have the most queries",
		Long: `top counts queries and shows, for each interval, who has the most of them: guests, names, each by its
network, networks, and the upstreams that forward and ovnforward have asked. NOERROR to DROPPED are the
shares of what has become of the queries, MEDIAN and P99 the time to the answer or the resume, within an
eighth; for an upstream that is the time of the whole query, too.

The process counts each query that it finishes with; what it has no time to look at is said, and is in
no figure. It keeps 1024 counters of each kind. As long as those do, counts are exact. With more guests or
names than that, whoever has a thousandth of all queries is found, and a count that may be too high
has a ≤ before it.

On a terminal it is a screen that changes: g, n, w and u are for guests, names, networks and upstreams, q
and Ctrl-C end it. Elsewhere, and with --once, the tables are written one below another.

` + filterHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			parameters, err := t.parameters(&f)
			if err != nil {
				return err
			}
			return t.run(cmd, parameters, &f)
		},
	}
	f.add(cmd, o)
	flags := cmd.Flags()
	flags.IntVar(&t.interval, "interval", t.interval, fmt.Sprintf("seconds that each table is for, up to %d", api.MaxTopInterval))
	flags.IntVar(&t.limit, "limit", t.limit, fmt.Sprintf("how many lines a table has at most, up to %d", api.MaxTopLimit))
	flags.StringSliceVar(&t.by, "by", nil, "tables: "+strings.Join(api.TopKinds, ", ")+" (default: all; guests on the screen at first)")
	flags.BoolVar(&t.once, "once", false, "write the tables of one interval and end")
	flags.IntVarP(&t.count, "count", "n", 0, "end after so many intervals (default: never)")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(api.TopKinds, cobra.ShellCompDirectiveNoFileComp)) // the option exists
	return cmd
}

// topper is one run of top.
type topper struct {
	*options
	interval, limit, count int
	by                     []string
	once                   bool
}

// parameters returns those of the stream.
func (t *topper) parameters(f *filters) (url.Values, error) {
	p := f.parameters()
	for _, kind := range t.by {
		if !slices.Contains(api.TopKinds, kind) {
			return nil, fmt.Errorf("by %q: expected %s", kind, strings.Join(api.TopKinds, ", "))
		}
	}
	if t.once {
		t.count = 1
	}
	p["by"] = t.by
	p.Set("interval", strconv.Itoa(t.interval))
	p.Set("limit", strconv.Itoa(t.limit))
	p.Set("count", strconv.Itoa(t.count))
	return p, nil
}

func (t *topper) run(cmd *cobra.Command, parameters url.Values, f *filters) error {
	out := cmd.OutOrStdout()
	s, err := t.client(cmd).open(cmd.Context(), api.PathTop, parameters)
	if err != nil {
		return unlessInterrupted(cmd, err)
	}
	defer s.close()
	if t.format == formatTable && !t.once && isTerminal(out) {
		return unlessInterrupted(cmd, t.live(cmd, s, f.absent(cmd, t.options)))
	}
	f.warn(cmd, t.options)
	for told := 0; ; told++ {
		line, err := s.next()
		if err == nil {
			err = t.show(out, line, told > 0)
		}
		if err != nil {
			return unlessInterrupted(cmd, s.end(err, t.isComplete(told)))
		}
	}
}

// isComplete reports whether so many intervals are all that were asked for.
func (t *topper) isComplete(told int) bool { return t.count > 0 && told == t.count }

// show writes what a line says, behind others if more is set.
func (t *topper) show(out io.Writer, line []byte, more bool) error {
	if t.format != formatTable {
		return t.raw(out, line)
	}
	top, err := parseTop(line)
	if err != nil {
		return err
	}
	p := newPage(out)
	if more {
		p.linef("")
	}
	p.top(top, t.kinds())
	_, err = out.Write(p.text.Bytes())
	return err
}

func parseTop(line []byte) (*api.Top, error) {
	top := new(api.Top)
	if err := json.Unmarshal(line, top); err != nil {
		return nil, &exitError{exitNoProcess, fmt.Errorf("a line is not understood: %w; expected that of a puntdns of this version", err)}
	}
	return top, nil
}

// kinds returns the tables that were asked for.
func (t *topper) kinds() []string {
	if len(t.by) == 0 {
		return api.TopKinds
	}
	return t.by
}

// top writes the tables of some kinds below a line about all queries.
func (p *page) top(top *api.Top, kinds []string) {
	all := &top.All
	p.line(
		cell{text: fmt.Sprintf("%s  %s queries/s in %.1f s:", top.Time.Local().Format("15:04:05"), rateOf(all.PerSecond), top.Seconds)},
		cell{text: sharesText(all)},
		cell{text: fmt.Sprintf("median %s, p99 %s", cmp.Or(brief(all.MedianSeconds), "-"), cmp.Or(brief(all.P99Seconds), "-"))},
	)
	if top.Missed > 0 {
		p.line(in(yellow, fmt.Sprintf("%d further queries were not looked at, as the process had no time for it", top.Missed)))
	}
	for _, kind := range kinds {
		if table := top.Table(kind); table != nil {
			p.linef("")
			p.topTable(kind, table)
		}
	}
}

// topHeadings are the first columns by the kind of a table.
var topHeadings = map[string][]string{
	api.TopGuests:    {"GUEST", "SWITCH"},
	api.TopNames:     {"NAME", "SWITCH"},
	api.TopNetworks:  {"SWITCH", "NETWORK"},
	api.TopUpstreams: {"UPSTREAM"},
}

func (p *page) topTable(kind string, table *api.TopTable) {
	heading := append(slices.Clone(topHeadings[kind]), "QUERIES/S", "NOERROR", "NXDOMAIN", "SERVFAIL", "OTHER", "RESUMED", "DROPPED", "MEDIAN", "P99")
	var rows [][]cell
	for i := range table.Entries {
		e := &table.Entries[i]
		var row []cell
		switch kind {
		case api.TopGuests:
			row = []cell{said(e.Port), said(e.Switch)}
		case api.TopNames:
			row = []cell{said(e.Name), said(e.Switch)}
		case api.TopNetworks:
			row = []cell{said(e.Switch), said(e.Network)}
		case api.TopUpstreams:
			row = []cell{said(e.Upstream)}
		}
		rows = append(rows, append(row, figureCells(e)...))
	}
	p.table(heading, rows)
	switch more := table.Distinct - len(table.Entries); {
	case !table.Exact:
		p.line(in(yellow, fmt.Sprintf("there are more than %d; one that is not shown has ≤ %d queries, or as many as the last line", table.Distinct, table.MissingAtMost)))
	case more > 0:
		p.linef("and %d more", more)
	}
}

func figureCells(e *api.TopEntry) []cell {
	rate := rateOf(e.PerSecond)
	if e.TooHigh > 0 {
		rate = "≤ " + rate
	}
	sum := e.NoError + e.NXDomain + e.ServFail + e.OtherRcodes + e.Resumed + e.Dropped
	share := func(n uint64, c colour) cell {
		if n == 0 {
			return said("")
		}
		return cell{shareText(n, sum), c}
	}
	return []cell{
		{text: rate}, share(e.NoError, ""), share(e.NXDomain, ""), share(e.ServFail, red), share(e.OtherRcodes, red), share(e.Resumed, ""), share(e.Dropped, red),
		said(brief(e.MedianSeconds)), said(brief(e.P99Seconds)),
	}
}

// rateOf returns queries a second, with a digit behind the point for few.
func rateOf(perSecond float64) string {
	if perSecond < 10 {
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return strconv.FormatFloat(perSecond, 'f', 0, 64)
}

// shareText returns a part of a sum, which is never shown as nothing or all unless it is.
func shareText(n, sum uint64) string {
	switch share := 100 * float64(n) / float64(max(sum, 1)); {
	case share < 1 && n > 0:
		return "<1%"
	case share > 99 && n < sum:
		return ">99%"
	default:
		return strconv.FormatFloat(share, 'f', 0, 64) + "%"
	}
}

// sharesText returns what has become of queries.
func sharesText(e *api.TopEntry) string {
	var parts []string
	for _, part := range []struct {
		name string
		n    uint64
	}{
		{"NOERROR", e.NoError}, {"NXDOMAIN", e.NXDomain}, {"SERVFAIL", e.ServFail}, {"other rcodes", e.OtherRcodes}, {"resumed", e.Resumed}, {"dropped", e.Dropped},
	} {
		if part.n > 0 {
			parts = append(parts, part.name+" "+shareText(part.n, e.Queries))
		}
	}
	if len(parts) == 0 {
		return "none;"
	}
	return strings.Join(parts, ", ") + ";"
}
