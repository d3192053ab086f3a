// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"errors"
	"fmt"

	"github.com/coredns/caddy/caddyfile"

	"github.com/puntdns/puntdns/ofpunt/label"
)

// readLabels reads from a block of the file which labels it names. It returns an error for a
// view by a label that no query of the block has: it would match no query, or all. It warns of
// other plugins that read such a label, and of labels that rewrite takes for a part of a name.
func (b *block) readLabels(file string, block caddyfile.ServerBlock) error {
	b.file, b.reads = file, label.Read(block)
	var all []error
	for i := range b.reads.Uses {
		u := &b.reads.Uses[i]
		all = append(all, b.refuseLabel(u, b.reads.Wrong(u)))
	}
	for _, l := range b.reads.Literals {
		log.Warningf("%s - ofpunt %s: rewrite at %s has {%s} in a rule without the word metadata, and takes it as it is written; expected rewrite name regex FROM TO metadata",
			b, b.directive.Bridge.Name, locationOf(b.file, l.At), l.Label)
	}
	return errors.Join(all...)
}

// refuseLabel returns an error for a view by a label that is wrong, and warns of other plugins
// that read it. An empty text says that it is right.
func (b *block) refuseLabel(u *label.Use, wrong string) error {
	if wrong == "" {
		return nil
	}
	err := fmt.Errorf("%s - ofpunt %s: %s at %s reads the label %s, which %s", b, b.directive.Bridge.Name, u.Plugin, locationOf(b.file, u.At), u.Label, wrong)
	if u.Plugin == "view" {
		return err
	}
	log.Warning(err)
	return nil
}

// checkLabelsWithoutDatabase does so for labels that only the OVN databases have values for, if
// the bridge reads none.
func checkLabelsWithoutDatabase(blocks []*block) error {
	var all []error
	for _, b := range blocks {
		for i := range b.reads.Uses {
			if u := &b.reads.Uses[i]; u.IsFromOVN() {
				all = append(all, b.refuseLabel(u, "is empty without an OVN database; expected ovnhosts in a block of this bridge"))
			}
		}
	}
	return errors.Join(all...)
}
