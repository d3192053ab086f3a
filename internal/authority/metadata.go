// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"context"

	"github.com/coredns/coredns/plugin/metadata"
)

// Metadata adds the label NAME/answer: names.Source, "zone", or empty.
func (p *Plugin) Metadata(ctx context.Context) context.Context {
	table := new(string)
	metadata.SetValueFunc(ctx, p.Name+"/answer", func() string { return *table })
	return context.WithValue(ctx, p, table)
}

func (p *Plugin) setMetadata(ctx context.Context, table string) {
	if t, ok := ctx.Value(p).(*string); ok {
		*t = table
	}
}
