// SPDX-License-Identifier: Apache-2.0

// Package binding decides which ports are guests of this chassis, which guests are retained without a binding,
// and why another port is no guest. [Guests] and [Inputs] are pure.
package binding
