// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/shell"
)

// filters are the options by which watch and top choose queries.
type filters struct{ words map[string]*[]string }

// filterHelp stands in the help of both.
const filterHelp = `Each filter may be given several times, or have several words with commas between them: a query has to
match one word of each that is given. They are applied in the process. A port or a switch that no guest has
at present is said on standard error.`

// add adds the options to a command.
func (f *filters) add(cmd *cobra.Command, o *options) {
	f.words = map[string]*[]string{}
	for _, option := range []struct{ name, help string }{
		{api.FilterPort, "queries of a logical port"},
		{api.FilterSwitch, "queries of the guests of a logical switch"},
		{api.FilterName, "queries for a domain name, or as *.example.org for all names below one"},
		{api.FilterType, "queries for a type, such as AAAA or TYPE65"},
		{api.FilterRcode, "queries that get an rcode, such as NXDOMAIN or 3, or are RESUMED or DROPPED"},
		{api.FilterBlock, "queries that a server block has taken, by its zone, or its line as in Corefile:7"},
	} {
		f.words[option.name] = cmd.Flags().StringSlice(option.name, nil, option.help)
	}
	// The options exist.
	_ = cmd.RegisterFlagCompletionFunc(api.FilterPort, o.completePorts)
	_ = cmd.RegisterFlagCompletionFunc(api.FilterSwitch, o.completePorts)
	for option, words := range map[string][]string{
		api.FilterType:  {"A", "AAAA", "PTR", "SRV", "TXT", "MX", "CNAME", "SOA", "NS", "HTTPS"},
		api.FilterRcode: {"NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED", "FORMERR", "NOTIMP", "RESUMED", "DROPPED"},
	} {
		_ = cmd.RegisterFlagCompletionFunc(option, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// warn writes which ports and switches no guest has at present.
func (f *filters) warn(cmd *cobra.Command, o *options) {
	p := newPage(cmd.ErrOrStderr())
	for _, text := range f.absent(cmd, o) {
		p.line(in(yellow, "warning:"), said(text))
	}
	_, _ = cmd.ErrOrStderr().Write(p.text.Bytes()) // there is nobody else to tell
}

// absent says which ports and switches no guest has at present: that may be a wrong word, or a guest that is
// still to come, so the stream goes on. If the guests can't be asked for, it says nothing.
func (f *filters) absent(cmd *cobra.Command, o *options) (warnings []string) {
	ports, switches := *f.words[api.FilterPort], *f.words[api.FilterSwitch]
	var all api.Guests
	if len(ports)+len(switches) == 0 || o.client(cmd).get(cmd.Context(), api.PathGuests, nil, &all) != nil || len(all.Errors) > 0 {
		return nil
	}
	of := func(option string, words []string, has func(*api.Guest) string) {
		for _, word := range words {
			if !slices.ContainsFunc(all.Guests, func(g api.Guest) bool { return has(&g) == word }) {
				warnings = append(warnings, fmt.Sprintf("--%s %s: no guest here has this %s at present; its queries are shown once one has (`puntctl guests` lists all)", option, shell.Word(word), option))
			}
		}
	}
	of(api.FilterPort, ports, func(g *api.Guest) string { return g.Port })
	of(api.FilterSwitch, switches, func(g *api.Guest) string { return g.Switch })
	return warnings
}

// parameters returns the options as those of a stream.
func (f *filters) parameters() url.Values {
	out := url.Values{}
	for name, words := range f.words {
		if len(*words) > 0 {
			out[name] = *words
		}
	}
	return out
}
