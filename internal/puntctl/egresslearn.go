// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/puntdns/puntdns/internal/control/api"
)

func egressLearnCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "learn [VALUE]",
		Short: "Print the policies of egress with the names that guests have asked",
		Long: `learn prints each policy of egress with observe on, in the syntax of the
Corefile, with a line for each name that its guests have asked since the last
start or reload and that none of their policies allows. Delete the lines that
you do not want, and put the rest into the Corefile.

VALUE is the value of a policy's label, such as the name of a port group.`,
		Example:           "  puntctl egress learn\n  puntctl egress learn sandboxes",
		Args:              needs(0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			var all api.LearnedPolicies
			if err := o.client(cmd).get(cmd.Context(), api.PathEgressLearn, nil, &all); err != nil {
				return err
			}
			missing := "no policy to learn from"
			if len(args) > 0 {
				missing = fmt.Sprintf("VALUE %q: no policy to learn from with this value", args[0])
				all.Policies = slices.DeleteFunc(all.Policies, func(p api.LearnedPolicy) bool { return !strings.HasSuffix(p.Policy, " "+args[0]) })
			}
			if len(all.Policies) == 0 {
				return &exitError{status: exitUnwell, err: fmt.Errorf("%s; expected a policy of the Corefile with `observe on` (learn leaves out Northbound policies)", missing)}
			}
			if !o.isForPeople() {
				return o.write(cmd.OutOrStdout(), &all, nil)
			}
			for i := range all.Policies {
				printLearned(cmd.OutOrStdout(), &all.Policies[i])
			}
			return nil
		},
	}
}

func printLearned(w io.Writer, p *api.LearnedPolicy) {
	fmt.Fprintf(w, "# of %s\npolicy %s {\n", p.At, p.Policy)
	fmt.Fprintf(w, "    allow %s\n", strings.Join(p.Allow, " "))
	for _, n := range p.Names {
		fmt.Fprintf(w, "    allow %s # queries: %d\n", n.Name, n.Queries)
	}
	if p.More {
		fmt.Fprintln(w, "    # Incomplete: the guests asked for more names than puntdns remembers, or for names that an entry cannot contain.")
	}
	fmt.Fprintln(w, "}")
}
