// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
)

func topCommand(o *options) *cobra.Command {
	t := &topper{options: o, interval: api.DefaultTopInterval, limit: api.DefaultTopLimit}
	var f filters
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the busiest guests, names, networks and upstreams",
		Long: `top shows the busiest guests, names, networks and upstreams of each interval.
Names count for each network. Upstreams are the servers that forward and
ovnforward asked.

The columns from NOERROR to DROPPED are shares of the results. MEDIAN and P99
are the time to the result, accurate to an eighth; for an upstream it is the
time of the whole query.

puntdns counts each query that it completes. Queries that it has no time to
count are shown as a number, and are in no other figure. Figures are exact for
up to 1024 guests or names. With more, each guest or name with a thousandth of
all queries is shown, and ≤ marks a rate that may be too high.

On a terminal top is a screen. The keys g, n, w and u choose guests, names,
networks and upstreams; q and Ctrl-C end it. Elsewhere, and with --once, top
writes the tables one below another. If puntdns restarts, top continues with the
new process.

` + filterHelp,
		Example: `  puntctl top
  puntctl top --once --by guests,names --limit 5
  puntctl top --switch red --interval 10`,
		Args: needs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			parameters, err := t.parameters(cmd, &f)
			if err != nil {
				return err
			}
			return t.run(cmd, parameters, &f)
		},
	}
	f.add(cmd, o)
	t.reconnect = addReconnect(cmd)
	flags := cmd.Flags()
	flags.IntVar(&t.interval, "interval", t.interval, fmt.Sprintf("seconds between two tables, up to %d", api.MaxTopInterval))
	flags.IntVar(&t.limit, "limit", t.limit, fmt.Sprintf("lines of a table at most, up to %d", api.MaxTopLimit))
	flags.StringSliceVar(&t.by, "by", nil, "tables: "+strings.Join(api.TopKinds, ", ")+" (default: all; guests on the screen at first)")
	flags.BoolVar(&t.once, "once", false, "write the tables of one interval and end")
	flags.IntVarP(&t.count, "count", "n", 0, "end after this number of intervals (default: never)")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(api.TopKinds, cobra.ShellCompDirectiveNoFileComp)) // the option exists
	return cmd
}

type topper struct {
	*options
	interval, limit, count int
	by                     []string
	once                   bool
	reconnect              *time.Duration
}

func (t *topper) parameters(cmd *cobra.Command, f *filters) (url.Values, error) {
	p := f.parameters(cmd, t.options)
	for _, kind := range t.by {
		if !slices.Contains(api.TopKinds, kind) {
			return nil, fmt.Errorf("--by %q: expected %s", kind, strings.Join(api.TopKinds, ", "))
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
	s := &lasting{ctx: cmd.Context(), patience: *t.reconnect}
	s.open = func() (*stream, error) {
		if t.count > 0 {
			parameters.Set("count", strconv.Itoa(t.count-s.received))
		}
		return t.client(cmd).open(cmd.Context(), api.PathTop, parameters)
	}
	s.complete = func() bool { return t.count > 0 && s.received >= t.count }
	s.lost = func(err error) { fmt.Fprintf(cmd.ErrOrStderr(), "puntctl: %v\n", err) }
	if err := s.begin(); err != nil {
		return unlessInterrupted(cmd, named(cmd, err))
	}
	defer s.close()
	if t.isForPeople() && !t.once && isTerminal(out) {
		return unlessInterrupted(cmd, t.live(cmd, s, f.absent(cmd, t.options)))
	}
	f.warn(cmd, t.options)
	for {
		line, err := s.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err == nil:
			err = t.show(out, line, s.received > 1)
		}
		if err != nil {
			return unlessInterrupted(cmd, err)
		}
	}
}

// show writes a line of the stream, after an empty line if more is set.
func (t *topper) show(out io.Writer, line []byte, more bool) error {
	if !t.isForPeople() {
		return t.raw(out, line)
	}
	top, err := parseTop(line)
	if err != nil {
		return err
	}
	p := t.newPage(out)
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
		return nil, &exitError{status: exitNoProcess, err: fmt.Errorf("puntctl can't read a line: %w; expected a puntdns of the same version", err)}
	}
	return top, nil
}

func (t *topper) kinds() []string {
	if len(t.by) == 0 {
		return api.TopKinds
	}
	return t.by
}

func (p *page) top(top *api.Top, kinds []string) {
	all := &top.All
	p.sentence(cell{text: fmt.Sprintf("%s  %s queries/s in %.1f s: %s median %s, p99 %s", top.Time.Local().Format("15:04:05"), rateOf(all.PerSecond), top.Seconds,
		sharesText(all), cmp.Or(brief(all.MedianSeconds), "-"), cmp.Or(brief(all.P99Seconds), "-"))})
	if top.Missed > 0 {
		p.sentence(in(yellow, fmt.Sprintf("%d more queries are in no figure: puntdns had no time to count them", top.Missed)))
	}
	for _, kind := range kinds {
		if table := top.Table(kind); table != nil {
			p.linef("")
			p.topTable(kind, table)
		}
	}
}

// topColumns are the first columns of a table, followed by topFigures.
var (
	topColumns = map[string][]column{
		api.TopGuests:    {{"GUEST", cut}, {"SWITCH", cut}},
		api.TopNames:     {{"NAME", cut}, {"SWITCH", cut}},
		api.TopNetworks:  {{"SWITCH", cut}, {"NETWORK", wide}},
		api.TopUpstreams: {{"UPSTREAM", cut}},
	}
	topFigures = []column{
		{"QUERIES/S", 0}, {"NOERROR", 0}, {"NXDOMAIN", 0}, {"SERVFAIL", 0}, {"OTHER", wide}, {"RESUMED", wide}, {"DROPPED", 0}, {"MEDIAN", wide}, {"P99", 0},
	}
)

func (p *page) topTable(kind string, table *api.TopTable) {
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
	p.table(slices.Concat(topColumns[kind], topFigures), rows)
	switch more := table.Distinct - len(table.Entries); {
	case !table.Exact:
		p.sentence(in(yellow, fmt.Sprintf("there are more than %d; each one not shown has at most %d queries, or as many as the last line", table.Distinct, table.MissingAtMost)))
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

// rateOf has one decimal below 10.
func rateOf(perSecond float64) string {
	if perSecond < 10 {
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return strconv.FormatFloat(perSecond, 'f', 0, 64)
}

// shareText returns percent. Only exact shares are 0% or 100%.
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
