// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

// weights are the coefficients of the model of pauses. They were fitted on
// recorded conversations by
//
//	go test ./keepalive -run TestFitChance -fit -v
var weights = features{
	termOne: -0.32, termTool: 0.70, termFirst: -0.56, termQuestion: 0.10, termPauses: -0.01,
	termAge: -0.39, termAge + 1: -0.06, termAge + 2: 0.07,
}
