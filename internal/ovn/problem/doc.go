// SPDX-License-Identifier: Apache-2.0

// Package problem keeps the values of the databases that can't be used. A row or a network has a [Set] of problems,
// which changes with its columns. A [Registry] sums up the sets of all present rows and networks, and says which
// problems are new.
package problem
