// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "strings"

// Service is how a provider serves a request, as far as prices depend on it: a set of
// the values below, empty where nothing is said.
type Service uint8

// What providers tell, and requests ask for.
const (
	// Standard is the usual tier: an answer says so where it was asked for another.
	Standard Service = 1 << iota
	// Flex is served when there is room, Batch within a day.
	Flex
	Batch
	// Priority is served before others, Ultrafast faster still.
	Priority
	Ultrafast
	// Fast is Anthropic's fast mode (speed).
	Fast
	// Regional is served in one region (inference_geo, or the address).
	Regional
)

// tiers are the values that exclude each other.
const tiers = Standard | Flex | Batch | Priority | Ultrafast

// ServiceTier reads the name of a tier: service_tier of all APIs, trafficType of Vertex AI.
func ServiceTier(name string) Service {
	name = strings.ToLower(name)
	name = strings.TrimPrefix(strings.TrimPrefix(name, "service_tier_"), "on_demand_")
	switch name {
	case "default", "standard", "standard_only", "on_demand":
		return Standard
	case "flex":
		return Flex
	case "batch":
		return Batch
	case "priority", "fast":
		return Priority
	case "ultrafast":
		return Ultrafast
	}
	return 0 // auto, scale, and what is paid in advance
}

// ServiceSpeed reads the speed of the Messages API.
func ServiceSpeed(name string) Service {
	if name == "fast" {
		return Fast
	}
	return 0
}

// ServiceGeo reads inference_geo of the Messages API.
func ServiceGeo(name string) Service {
	switch name {
	case "", "global", "not_available":
		return 0
	}
	return Regional
}

// Or returns the service with what another says in the place of what it leaves open.
func (s Service) Or(asked Service) Service {
	if s&tiers != 0 {
		asked &^= tiers
	}
	return s | asked
}

// String names what may have a price of its own, in one order, with blanks between.
func (s Service) String() string {
	var names []string
	for i, name := range [...]string{"flex", "batch", "priority", "ultrafast", "fast", "regional"} {
		if s&(Flex<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}
