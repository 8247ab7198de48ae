// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "strings"

// Service is the service level of a request, as far as it affects prices: a set of the values
// below. It is empty if unspecified.
type Service uint8

// The service levels of requests and answers.
const (
	// Standard is the default tier. Answers report it if another tier was requested.
	Standard Service = 1 << iota
	// Flex is served when there is capacity, Batch within a day.
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

// tiers are the mutually exclusive values.
const tiers = Standard | Flex | Batch | Priority | Ultrafast

// ServiceTier parses the name of a tier: service_tier of all APIs, trafficType of Vertex AI.
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
	return 0 // auto, scale, and prepaid tiers
}

// ServiceSpeed parses speed of the Messages API.
func ServiceSpeed(name string) Service {
	if name == "fast" {
		return Fast
	}
	return 0
}

// ServiceGeo parses inference_geo of the Messages API.
func ServiceGeo(name string) Service {
	switch name {
	case "", "global", "not_available":
		return 0
	}
	return Regional
}

// Or returns the union of both services. The tier of s takes precedence.
func (s Service) Or(asked Service) Service {
	// The tiers are mutually exclusive.
	if s&tiers != 0 {
		asked &^= tiers
	}
	return s | asked
}

// String returns the values with a price of their own, in a fixed order, separated by spaces.
func (s Service) String() string {
	var names []string
	for i, name := range [...]string{"flex", "batch", "priority", "ultrafast", "fast", "regional"} {
		if s&(Flex<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}
