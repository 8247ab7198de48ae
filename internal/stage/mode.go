// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package stage

// Mode switches a stage.
type Mode string

// The modes of a stage. The empty Mode is Auto.
const (
	// Auto leaves it to the stage: it acts where the upstream's rules allow it
	// and it has been measured to help.
	Auto Mode = "auto"
	// On asks for the stage wherever the upstream's rules allow it.
	On Mode = "on"
	// Off switches the stage off. It is written "off".
	Off Mode = "off"
)
