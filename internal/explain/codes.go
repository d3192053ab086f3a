// SPDX-License-Identifier: Apache-2.0

package explain

// The codes of findings that plugins make.
const (
	// OtherNetwork: a network that the guest is not in knows the name.
	OtherNetwork = "other-network"
	// Upstream: an upstream does not answer.
	Upstream = "upstream"
)
