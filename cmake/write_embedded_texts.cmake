# Writes OUTPUT: FUNCTION, declared in HEADER, which returns a table of the files in TEXTS (a list
# of paths) as raw string literals.
set(text "#include \"${HEADER}\"\n\nnamespace clora {\nnamespace {\nusing std::string_view_literals::operator\"\"sv;  // lengths are not counted by the compiler\nconstexpr KernelSource kSources[] = {\n    {\"\", \"\"},\n")
foreach(path IN LISTS TEXTS)
  get_filename_component(name ${path} NAME)
  file(READ ${path} body)
  string(APPEND text "    {\"${name}\", R\"CLSOURCE(${body})CLSOURCE\"sv},\n")
endforeach()
string(APPEND text "};\n}  // namespace\nstd::span<const KernelSource> ${FUNCTION}() { return std::span(kSources).subspan(1); }\n}  // namespace clora\n")
file(WRITE ${OUTPUT} "${text}")
