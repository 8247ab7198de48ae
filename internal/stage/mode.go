// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package stage

// Mode switches a stage.
type Mode string

// The modes of a stage. The empty Mode is Auto.
const (
	// Auto lets the stage decide: it acts where the upstream's rules allow it and measurements show
	// a benefit.
	Auto Mode = "auto"
	// On enables the stage wherever the upstream's rules allow it.
	On Mode = "on"
	// Off disables the stage.
	Off Mode = "off"
)
