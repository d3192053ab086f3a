// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
)

func egressPoliciesCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "policies",
		Short: "List the egress policies in force, with their guests",
		Long: `policies lists the egress policies of the Corefile, then of the Northbound
database. GUESTS counts the guests of this node that a policy applies to: with 0
its label has another value than any guest, or the guest is on another node.
Northbound policies without a guest of this node are not shown.

ENTRIES counts what the policy allows. -o json has the entries and the guests.`,
		Example: `  puntctl egress policies
  puntctl egress policies -o json | jq '.policies[] | select(.guests == [])'`,
		Args:              needs(0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all api.EgressPolicies
			if err := o.client(cmd).get(cmd.Context(), api.PathEgressPolicies, nil, &all); err != nil {
				return err
			}
			return o.write(cmd.OutOrStdout(), &all, func(p *page) { p.egressPolicies(&all) })
		},
	}
}

func (p *page) egressPolicies(all *api.EgressPolicies) {
	if len(all.Policies) == 0 {
		p.linef("no egress policy is in force")
		return
	}
	rows := make([][]cell, 0, len(all.Policies))
	for i := range all.Policies {
		of := &all.Policies[i]
		guests := said(fmt.Sprint(len(of.Guests)))
		if len(of.Guests) == 0 {
			guests = in(yellow, "0")
		}
		rows = append(rows, []cell{said(of.Bridge), said(of.Policy), guests, said(of.Mode), said(fmt.Sprint(len(of.Allow))), said(of.At)})
	}
	p.table([]column{{"BRIDGE", wide}, {"POLICY", cut}, {"GUESTS", 0}, {"MODE", 0}, {"ENTRIES", 0}, {"AT", cut}}, rows)
	for i := range all.Policies {
		for _, text := range all.Policies[i].Warnings {
			p.line(in(yellow, all.Policies[i].At+": "+text))
		}
	}
}
