// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"context"

	"github.com/coredns/coredns/plugin/metadata"
)

// Metadata adds the label NAME/answer (metadata.Provider), the source of the answer: names.Source, "zone", or empty
// for none.
func (p *Plugin) Metadata(ctx context.Context) context.Context {
	table := new(string)
	metadata.SetValueFunc(ctx, p.Name+"/answer", func() string { return *table })
	return context.WithValue(ctx, p, table)
}

// setMetadata sets the label of Metadata.
func (p *Plugin) setMetadata(ctx context.Context, table string) {
	if t, ok := ctx.Value(p).(*string); ok {
		*t = table
	}
}
