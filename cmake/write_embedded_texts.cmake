# Writes OUTPUT: FUNCTION, declared in HEADER, which returns a table of the files in TEXTS (a list
# of paths) as raw string literals.
set(text "#include \"${HEADER}\"\n\nnamespace clora {\nnamespace {\nconstexpr KernelSource kSources[] = {\n    {\"\", \"\"},\n")
foreach(path IN LISTS TEXTS)
  get_filename_component(name ${path} NAME)
  file(READ ${path} body)
  string(APPEND text "    {\"${name}\", R\"CLSOURCE(${body})CLSOURCE\"},\n")
endforeach()
string(APPEND text "};\n}  // namespace\nstd::span<const KernelSource> ${FUNCTION}() { return std::span(kSources).subspan(1); }\n}  // namespace clora\n")
file(WRITE ${OUTPUT} "${text}")
