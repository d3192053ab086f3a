// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/coredns/caddy/caddyfile"
)

// labelReaders are the plugins that can read the labels of metadata.
var labelReaders = []string{"log", "rewrite", "template", "view"}

// labelUse is a place in a Corefile where a plugin reads a label of ofpunt.
type labelUse struct {
	plugin, label string
	at            caddyfile.Token
}

var labelText = regexp.MustCompile(`\b` + name + `/[A-Za-z0-9_-]+`)

// labelUses returns those of a block, in the order of labelReaders.
func labelUses(block caddyfile.ServerBlock) (uses []labelUse) {
	for _, reader := range labelReaders {
		for _, t := range block.Tokens[reader] {
			for _, label := range labelText.FindAllString(t.Text, -1) {
				uses = append(uses, labelUse{reader, label, t})
			}
		}
	}
	return uses
}

// wrongLabel says why a use has no value in its block, empty if it has one. The reader would see
// an empty string, or the text as it is written.
func wrongLabel(u labelUse, block caddyfile.ServerBlock) string {
	switch {
	case !slices.Contains(labelNames(), u.label):
		return fmt.Sprintf("is none of ofpunt's; expected one of %s", strings.Join(labelNames(), ", "))
	case len(block.Tokens["metadata"]) == 0:
		return "is empty without metadata; expected a line with metadata in the block"
	}
	return ""
}

// labelNames returns the names of all labels.
func labelNames() []string {
	names := make([]string, len(labels))
	for i := range labels {
		names[i] = labels[i].name
	}
	return names
}

// checkLabels returns an error for a view by a label that no query of the block has: it would
// match no query, or all. It warns of other plugins that read such a label.
func (b *block) checkLabels(file string, block caddyfile.ServerBlock) error {
	for _, u := range labelUses(block) {
		wrong := wrongLabel(u, block)
		if wrong == "" {
			continue
		}
		err := fmt.Errorf("%s - ofpunt %s: %s at %s reads the label %s, which %s", b, b.options.Bridge, u.plugin, locationOf(file, u.at), u.label, wrong)
		if u.plugin == "view" {
			return err
		}
		log.Warning(err)
	}
	return nil
}
