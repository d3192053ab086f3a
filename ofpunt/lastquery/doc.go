// SPDX-License-Identifier: Apache-2.0

// Package lastquery stores the last queries of each guest with their outcomes, for the property *why* of ofpunt. It
// knows neither packets nor plugins.
//
//	Store.Put      after each query of a guest       store.go
//	Store.Find     the last one, or the last for a name
//	Query.Strings  the strings of the TXT record     answer.go
package lastquery
