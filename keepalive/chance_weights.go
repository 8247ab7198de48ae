// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package keepalive

// weights are the coefficients of the model of pauses. They were fitted on
// recorded conversations by
//
//	go test ./keepalive -run TestFitChance -fit -v
var weights = features{termOne: -0.32, termTool: 0.70, termFirst: -0.56, termQuestion: 0.10, termPauses: -0.01, termAge: -0.39, termAge + 1: -0.06, termAge + 2: 0.07}
