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

package need

// weights are the coefficients of the need model, by group. They were fitted
// on recorded conversations by
//
//	go test ./pipeline -run TestFitNeed -fit -v
var weights = [Groups]Features{
	GroupResults: {TermOne: -5.49, TermAge2: -0.08, TermSize: 0.82, TermEdited: 2.07, TermSearch: -0.80},
	GroupReads:   {TermOne: 3.15, TermAge2: -0.07, TermUnused: -0.27, TermSize: 0.26, TermEdited: -2.29, TermWhole: -2.20, TermPart: -1.03, TermHot: -0.68, TermHotIdle: 0.27, TermEditAge: -0.67, TermRecent: -0.82, TermRereadIdle: -0.58, TermTestIdle: -0.48},
	GroupInputs:  {TermOne: -2.85, TermIdle: 0.54, TermIdle2: -0.08, TermSize: 0.61, TermWhole: -3.11, TermShell: -2.17, TermOther: -1.76, TermEditAge: -0.49},
}
