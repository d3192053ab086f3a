// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"errors"
	"fmt"
	"slices"

	"github.com/puntdns/puntdns/internal/label"
)

// readLabels refuses a view by a label that no query of the block has: it would match no query, or all. It warns of
// other plugins with that label, and of labels that *rewrite* takes literally.
func (b *Block) readLabels() error {
	b.reads = label.Read(b.source)
	var all []error
	for i := range b.reads.Uses {
		u := &b.reads.Uses[i]
		all = append(all, b.refuseLabel(u, b.reads.Wrong(u)))
	}
	for _, l := range b.reads.Literals {
		log.Warningf("%s - ofpunt %s: rewrite at %s has {%s} in a rule without the word metadata, and takes it as it is written; expected rewrite name regex FROM TO metadata",
			b, b.Directive.Bridge.Name, b.locationOf(l.At), l.Label)
	}
	return errors.Join(all...)
}

// refuseLabel returns an error for a view or an egress policy, and warns of other plugins. wrong is empty for a right
// label.
func (b *Block) refuseLabel(u *label.Use, wrong string) error {
	if wrong == "" {
		return nil
	}
	err := fmt.Errorf("%s - ofpunt %s: %s at %s reads the label %s, which %s", b, b.Directive.Bridge.Name, u.Plugin, b.locationOf(u.At), u.Label, wrong)
	if u.Plugin == "view" || u.Plugin == "egress" {
		return err
	}
	log.Warning(err)
	return nil
}

func (b *Block) checkLabelsWithoutDatabase() error {
	var all []error
	uses := slices.Concat(b.reads.Uses, b.reads.Policies)
	for i := range uses {
		if u := &uses[i]; u.IsFromOVN() {
			all = append(all, b.refuseLabel(u, "is empty without an OVN database; expected ovnhosts in a block of this bridge"))
		}
	}
	return errors.Join(all...)
}
